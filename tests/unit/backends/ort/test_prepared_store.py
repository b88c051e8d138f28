import os
import subprocess
import sys

import pytest

from onnxgen.backends.ort.backend import OrtBackend
from onnxgen.backends.ort.model_file import read_content
from onnxgen.backends.ort.plan_kind import PlanKind
from onnxgen.backends.ort.prepare import prepare
from onnxgen.backends.ort.prepared_store import PreparedStore
from onnxgen.foundations.runtime_config import RuntimeConfig
from tiny_decoders import Sizes, Style, TinyDecoder, decoder_model

STYLES = {
    "packed": (Sizes(), Style(hidden_states=True, rotary="positions")),
    "recurrent": (Sizes(conv_layers=(0,)), Style("plain")),
}


@pytest.fixture(params=STYLES)
def made(request, tmp_path):
    model = decoder_model(
        TinyDecoder(STYLES[request.param][0], 3), STYLES[request.param][1], tmp_path / "m.onnx"
    )
    content = read_content(model)
    return model, content, prepare(model, content, ragged_attention=True)


def test_an_entry_comes_back_as_it_was(made, tmp_path):
    model, content, prepared = made
    store = PreparedStore(tmp_path / "graphs")
    key = store.key(model, content, True)
    assert store.load(key) is None
    store.save(key, prepared)
    assert store.load(key) == prepared


def test_other_choices_have_other_keys(made, tmp_path):
    model, content, _ = made
    store = PreparedStore(tmp_path)
    keys = {store.key(model, content, True, p) for p in (None, *PlanKind)} | {
        store.key(model, content + b"x", True)
    }
    assert len(keys) == 5
    assert store.key(model, bytes(1 << 25)) is None


@pytest.mark.parametrize("damage", ["json", "onnx"])
def test_a_damaged_entry_is_as_good_as_none(made, tmp_path, damage):
    model, content, prepared = made
    store = PreparedStore(tmp_path / "graphs")
    key = store.key(model, content)
    store.save(key, prepared)
    path = tmp_path / "graphs" / f"{key}.{damage}"
    path.write_bytes(path.read_bytes()[:-5])
    assert store.load(key) is None


def test_a_folder_that_cannot_be_written_is_done_without(made, tmp_path):
    model, _, _ = made
    (tmp_path / "file").write_text("not a folder")
    OrtBackend(model, RuntimeConfig(backend="ort", threads=1, cache_dir=tmp_path / "file")).close()


def test_the_oldest_entries_are_forgotten(made, tmp_path):
    _, _, prepared = made
    store = PreparedStore(tmp_path / "graphs")
    for i in range(35):
        store.save(f"{i:02}", prepared)
        for kind in ("json", "onnx"):
            os.utime(tmp_path / "graphs" / f"{i:02}.{kind}", (i, i))
    store.save("new", prepared)
    assert len(list((tmp_path / "graphs").iterdir())) == 64
    assert store.load("new") is not None
    assert store.load("00") is None


def test_a_second_load_imports_no_graph_library(made, tmp_path):
    model, _, _ = made
    config = RuntimeConfig(backend="ort", threads=1, cache_dir=tmp_path)
    OrtBackend(model, config).close()
    code = (
        "import sys, pickle; from onnxgen.backends import load_backend\n"
        "load_backend(*pickle.load(sys.stdin.buffer)).close()\n"
        "sys.exit('onnx_ir' in sys.modules or 'onnx' in sys.modules)"
    )
    import pickle

    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps((model, config)), check=False)
    assert done.returncode == 0
