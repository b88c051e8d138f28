"""`ModelLoader`: engines in processes of their own, encoders, what loading refuses; a table over it."""

import asyncio
import os
from functools import partial
from pathlib import Path

import pytest

from fake_recipe import FakeRecipe, kill
from model_doubles import run, until
from onnxgen.errors import ConfigError, ModelNotFoundError
from onnxgen.facade import served_model
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.server.errors import ApiError
from onnxgen.server.models import ModelEntry, ModelState, ModelTable
from onnxgen.server.models.loader import ModelLoader, gives_vectors
from onnxgen.server.settings import ServerSettings
from tiny_encoders import write_encoder
from tiny_model_folder import write_model_folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(served_model, "ModelRecipe", partial(FakeRecipe, answers=(("a", "the thing"),)))
    return write_model_folder(tmp_path / "tiny", context=512)


def loader(tmp_path, **settings):
    settings = {"cache_tokens": 1024, "max_seqs": 4, **settings}
    return ModelLoader(ServerSettings(**settings), RuntimeConfig(cache_dir=tmp_path / "cache"))


def children():
    """Processes that this one has started and that have not ended."""
    lists = [path.read_text().split() for path in Path("/proc/self/task").glob("*/children")]
    return [int(pid) for pids in lists for pid in pids]


def test_an_engine_has_a_process_whose_death_is_mended(tmp_path, folder):
    async def scenario():
        models = ModelTable([ModelEntry("tiny", str(folder))], load=loader(tmp_path, context=100))
        try:
            await models.start()
            await models.preloaded()
            status = models.status("tiny")
            assert status.state is ModelState.READY
            assert (status.task, status.context_length) == ("generate", 100)
            assert status.engine_pid not in (None, os.getpid())
            assert status.memory_bytes > 1 << 20
            assert 0 < status.load_s < 60
            async with models.use(None) as model:
                assert (await model.text.complete("a")).text == "the thing"
                kill(status.engine_pid)
                await until(lambda: models.health.status == "unhealthy")
            with pytest.raises(ApiError) as caught:
                async with models.use("tiny"):
                    pass
            assert caught.value.status == 503
            await until(lambda: models.health.status == "ok")
            after = models.status("tiny")
            assert after.engine_pid not in (None, status.engine_pid)
            assert after.restarts == 1
            async with models.use(None) as same:
                assert same is model
                assert (await model.text.complete("a")).text == "the thing"
            await models.unload("tiny")
            assert models.status("tiny").memory_bytes is None
            with pytest.raises(ProcessLookupError):
                os.kill(after.engine_pid, 0)
        finally:
            await models.aclose()

    run(scenario())


def test_an_encoder_gives_vectors_and_writes_nothing(tmp_path):
    encoder = write_encoder(tmp_path / "encoder")
    assert gives_vectors(ModelEntry("e", str(encoder)))

    async def scenario():
        model = await loader(tmp_path)(ModelEntry("e", str(encoder)))
        assert model.vectors.embed("the thing").shape[0] == 1
        with pytest.raises(ApiError, match="gives vectors and writes nothing") as caught:
            _ = model.text
        assert (caught.value.status, caught.value.param) == (400, "model")
        assert model.memory_bytes_here is not None
        model.close()
        model.close()
        with pytest.raises(ApiError, match="unloaded"):
            _ = model.vectors

    run(scenario())


def test_what_cannot_be_loaded_says_why(tmp_path, folder):
    async def scenario():
        with pytest.raises(ModelNotFoundError):
            await loader(tmp_path)(ModelEntry("x", str(tmp_path / "gone")))
        with pytest.raises(ConfigError, match=r"none\.jinja cannot be read"):
            await loader(tmp_path)(ModelEntry("x", str(folder), chat_template=str(tmp_path / "none.jinja")))
        with pytest.raises(ModelNotFoundError):  # the engine was made already, and is ended
            await loader(tmp_path)(ModelEntry("x", str(folder), adapters={"style": str(tmp_path / "no")}))

    run(scenario())


def test_files_that_vanish_make_one_model_unavailable_and_no_other(tmp_path, folder):
    other = write_model_folder(tmp_path / "other", context=512)

    async def scenario():
        entries = [ModelEntry("a", str(folder), preload=False), ModelEntry("b", str(other), preload=False)]
        models = ModelTable(entries, load=loader(tmp_path))
        try:
            await models.load("b")
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()
            with pytest.raises(ApiError, match="'a' cannot be loaded: its files are not there") as caught:
                await models.load("a")
            assert str(folder) not in caught.value.message
            assert str(folder) in models.status("a").error
            async with models.use("b") as model:
                assert (await model.text.complete("a")).text == "the thing"
            assert models.health.status == "ok"
        finally:
            await models.aclose()

    run(scenario())


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks at processes as Linux shows them")
def test_a_load_that_nobody_wants_any_more_leaves_no_process(tmp_path, folder):
    async def scenario():
        loading = asyncio.create_task(loader(tmp_path)(ModelEntry("x", str(folder))))
        await until(children)
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loading
        await until(lambda: not children())

    run(scenario())
