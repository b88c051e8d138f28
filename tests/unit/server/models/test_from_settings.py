"""Models that the settings of a server name, and how their engines are configured."""

import asyncio

import pytest

from model_doubles import ScriptedLLM, run, until
from onnxgen.engine.speculation.options import Speculation
from onnxgen.errors import ConfigError
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.server.errors import ApiError
from onnxgen.server.models import LoadedModel, ModelEntry, open_table, supervision
from onnxgen.server.models.engine_options import engine_config, runtime_config
from onnxgen.server.models.from_settings import entries_of, limits_of, name_of
from onnxgen.server.settings import ServerSettings
from tiny_model_folder import write_model_folder


def test_one_model_is_called_as_its_folder_or_as_the_operator_says(tmp_path, monkeypatch):
    folder = write_model_folder(tmp_path / "my model")
    (entry,) = entries_of(ServerSettings(model=str(folder) + "/"))
    assert entry.names == ("my model",)
    (entry,) = entries_of(ServerSettings(model=str(folder), served_model_name=("a/b", "c")))
    assert (entry.id, entry.aliases) == ("a/b", ("c",))
    monkeypatch.chdir(folder)
    assert name_of(".") == "my model"
    assert name_of("smollm2") == "smollm2"
    assert name_of("hf:Org/Repo@main") == "Org/Repo"
    assert name_of("pypi:some-package") == "some-package"
    gguf = tmp_path / "x.Q4.gguf"
    gguf.touch()
    assert name_of(str(gguf)) == "x.Q4"


def test_flags_of_the_one_model_become_its_entry():
    settings = ServerSettings(
        model="m",
        adapter=("style=/a/b=c",),
        default=("temperature=0", 'stop=["x"]', "adapter=style"),
        draft_model="d",
        precision="int8",
        preload=False,
        warm_up=False,
        tool_call_format="hermes",
        chat_template="/t.jinja",
    )
    (entry,) = entries_of(settings)
    assert entry.adapters == {"style": "/a/b=c"}
    assert entry.defaults == {"temperature": 0, "stop": ["x"], "adapter": "style"}
    assert (entry.draft_model, entry.precision, entry.tool_call_format) == ("d", "int8", "hermes")
    assert (entry.preload, entry.warm_up, entry.chat_template) == (False, False, "/t.jinja")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "nothing to serve"),
        ({"model": "a", "models": "b"}, "give one of them"),
        ({"model": "a", "default": ("temperature",)}, "--default is 'temperature'; NAME=VALUE"),
        ({"model": "a", "default": ("temperture=1",)}, "did you mean 'temperature'"),
        ({"model": "a", "adapter": ("=x",)}, "--adapter is '=x'"),
        ({"models": "b", "adapter": ("x=y",)}, "--adapter is about the one model"),
        ({"models": "b", "served_model_name": ("x",)}, "--served-model-name is about the one model"),
    ],
)
def test_settings_that_name_no_models_or_contradict_are_refused(given, said):
    with pytest.raises(ConfigError, match=said):
        entries_of(ServerSettings(**given))


def test_several_models_take_switches_and_defaults_from_the_settings(tmp_path):
    path = tmp_path / "m.toml"
    path.write_text('[[model]]\nid="a"\nsource="b"\ndefaults={top_k=3}\n', encoding="utf-8")
    (entry,) = entries_of(ServerSettings(models=path, preload=False, default=("top_k=1", "top_p=0.5")))
    assert entry.defaults == {"top_k": 3, "top_p": 0.5}
    assert not entry.preload
    assert entry.warm_up


def test_limits_come_from_the_settings():
    limits = limits_of(ServerSettings(max_loaded_models=2, models_memory_mb=3, model_keep_alive_s=4))
    assert (limits.max_loaded, limits.memory_bytes, limits.keep_alive_s) == (2, 3 << 20, 4)
    assert limits_of(ServerSettings()).memory_bytes is None


def test_an_entry_wins_over_the_settings():
    settings = ServerSettings(
        max_seqs=5, max_waiting=7, cache_tokens=999, context=64, speculation="prompt_lookup"
    )
    config = engine_config(ModelEntry("a", "b"), settings, RuntimeConfig(prefill_chunk_tokens=100))
    assert (config.scheduler.max_seqs, config.scheduler.max_waiting) == (5, 7)
    assert (config.scheduler.chunk_tokens, config.scheduler.max_step_tokens) == (100, 100)
    assert (config.cache_tokens, config.max_seq_tokens) == (999, 64)
    assert config.speculation == Speculation("prompt_lookup")
    said = {"max_seqs": 600, "cache_mb": 10, "speculation": {"method": "off"}, "prefix_reuse": False}
    config = engine_config(ModelEntry("a", "b", engine=said), settings, RuntimeConfig())
    assert (config.scheduler.max_seqs, config.scheduler.max_step_tokens) == (600, 600)
    assert (config.cache_mb, config.cache_tokens, config.prefix_reuse) == (10, None, False)
    assert config.speculation == Speculation("off")
    runtime = runtime_config(
        ModelEntry("a", "b", runtime={"threads": 3}), RuntimeConfig(threads=1, offline=True)
    )
    assert (runtime.threads, runtime.offline) == (3, True)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"engine": {"max_seq": 1}}, "model 'a': engine has no field 'max_seq'; did you mean 'max_seqs'"),
        ({"engine": {"max_seqs": 0}}, "model 'a': engine: max_seqs is 0"),
        ({"engine": {"cache_mb": 1, "cache_tokens": 1}}, "both size the cache"),
        ({"engine": {"speculation": "sometimes"}}, "speculation.method"),
        ({"engine": {"scheduler": {}}}, "has no field 'scheduler'"),
        ({"runtime": {"thread": 1}}, "model 'a': runtime has no field 'thread'; did you mean 'threads'"),
        ({"runtime": {"threads": "many"}}, "runtime.threads is 'many'; expected a whole number"),
    ],
)
def test_what_an_entry_says_wrong_is_told_before_anything_is_loaded(fields, said):
    entry = ModelEntry("a", "b", **fields)
    with pytest.raises(ConfigError, match=said):
        engine_config(entry, ServerSettings(), runtime_config(entry, RuntimeConfig()))


def test_a_table_is_opened_without_loading(tmp_path):
    path = tmp_path / "m.toml"
    path.write_text('[[model]]\nid="a"\nsource="/nowhere"\nengine={max_seqs=0}\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="max_seqs"):
        open_table(ServerSettings(models=path), RuntimeConfig())
    path.write_text('[[model]]\nid="a"\nsource="/nowhere"\naliases=["b"]\n', encoding="utf-8")
    table = open_table(ServerSettings(models=path), RuntimeConfig())
    assert table.entry("b").source == "/nowhere"


def test_requests_wait_for_a_model_as_long_as_settings_say():
    async def never(entry):
        await asyncio.Event().wait()

    async def scenario():
        asked = ServerSettings(model="nowhere", model_wait_s=0.01)
        table = open_table(asked, RuntimeConfig(), watched=lambda _: never)
        with pytest.raises(ApiError, match="still being loaded"):
            await table.load(None)
        await table.aclose()

    run(scenario())


def test_engines_hang_after_as_long_as_settings_say(monkeypatch):
    monkeypatch.setattr(supervision, "_PROBE_S", 0.001)

    class Hanging(ScriptedLLM):
        async def stats(self, *, timeout_s):
            raise TimeoutError

    async def scenario():
        llm = Hanging()

        async def load(entry):
            return LoadedModel(entry, llm=llm)

        asked = ServerSettings(model="nowhere", engine_hang_s=0.01, warm_up=False)
        table = open_table(asked, RuntimeConfig(), watched=lambda _: load)
        await table.load(None)
        await until(lambda: llm.restarts)
        await table.aclose()

    run(scenario())
