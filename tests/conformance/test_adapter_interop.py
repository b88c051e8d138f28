"""Graphs with inputs for adapters, and adapter files: as ONNX Runtime and onnxruntime-genai apply them."""

from __future__ import annotations

import json
import secrets

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

from checkpoints import CHECKPOINTS, prompt_ids, write_checkpoint
from folder_runner import FolderRunner
from onnxgen.builder import BuildOptions, build
from onnxgen.errors import CapabilityError, ModelFileError, OptionError
from onnxgen.facade.adapters import Adapters
from onnxgen.facade.generator import Generator
from onnxgen.facade.model import Model
from onnxgen.facade.params import GeneratorParams
from onnxgen.foundations.runtime_config import RuntimeConfig
from peft_by_hand import merged, random_pairs

SEED = secrets.randbits(32)
NEW = 10


def open_folder(tmp_path, folder):
    return Model(folder, runtime=RuntimeConfig(backend="ort", cache_dir=tmp_path / "cache", threads=1))


def add_inputs(folder, *, defaults):
    """Give the products of o_proj and down_proj inputs for an adapter, as model builders do; returns their names."""
    path = folder / "model.onnx"
    model = onnx.load(path, load_external_data=False)
    graph, names = model.graph, {}
    for node in list(graph.node):
        leaf = node.name.split("/")[-2] if node.name.count("/") > 1 else ""
        if node.op_type != "MatMul" or leaf not in ("o_proj", "down_proj"):
            continue
        base = node.name.strip("/").rpartition("/")[0].replace("/", ".")
        weight = next(w for w in graph.initializer if w.name == node.input[1])
        rows, columns = weight.dims
        for side, dims in (("A", (rows, 2)), ("B", (2, columns))):
            name = f"{base}.lora_{side}.MatMul.weight"
            names[name] = dims
            graph.input.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims))
            if defaults:
                graph.initializer.append(numpy_helper.from_array(np.zeros(dims, np.float32), name))
        product, low, high = node.output[0], f"{base}.low", f"{base}.high"
        node.output[0] = f"{base}.plain"
        at = list(graph.node).index(node) + 1
        for new in (
            helper.make_node(
                "MatMul", [node.input[0], f"{base}.lora_A.MatMul.weight"], [low], name=f"/{base}/low"
            ),
            helper.make_node("MatMul", [low, f"{base}.lora_B.MatMul.weight"], [high], name=f"/{base}/high"),
            helper.make_node("Add", [node.output[0], high], [product], name=f"/{base}/sum"),
        ):
            graph.node.insert(at, new)
            at += 1
    onnx.save(model, path)
    return names


def write_file(path, pairs, names):
    """An adapter file for those inputs."""
    values = {}
    for name in names:
        parts = name.split(".")
        group = "self_attn" if parts[3] == "attn" else parts[3]
        a, b = pairs[f"model.layers.{parts[2]}.{group}.{parts[4]}"]
        array = a.T if "lora_A" in name else b.T
        values[name] = ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
    file = ort.AdapterFormat()
    file.set_adapter_version(1)
    file.set_model_version(1)
    file.set_parameters(values)
    file.export_adapter(str(path))
    return path


def greedy(model, prompt, adapters=None, name=None):
    params = GeneratorParams(model)
    params.set_search_options(max_length=len(prompt) + NEW, min_length=len(prompt) + NEW)
    g = Generator(model, params)
    if adapters is not None:
        g.set_active_adapter(adapters, name)
    g.append_tokens(prompt)
    first = g.get_logits()[0, 0]
    while not g.is_done():
        g.generate_next_token()
    return g.get_sequence(0)[len(prompt) :].tolist(), first


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder with inputs for adapters, an adapter file for them, and its checkpoint merged."""
    tmp_path = tmp_path_factory.mktemp("interop")
    checkpoint = CHECKPOINTS["llama-untied"]
    build(
        write_checkpoint(checkpoint, tmp_path / "checkpoint"),
        tmp_path / "model",
        options=BuildOptions("fp32"),
    )
    names = add_inputs(tmp_path / "model", defaults=True)
    pairs = random_pairs(checkpoint, seed=SEED, rank=2, only=("o_proj", "down_proj"))
    write_file(tmp_path / "x.onnx_adapter", pairs, names)
    source = write_checkpoint(checkpoint, tmp_path / "merged-checkpoint", weights=merged(checkpoint, pairs))
    build(source, tmp_path / "merged", options=BuildOptions("fp32"))
    return tmp_path, prompt_ids(checkpoint, 9), names, pairs


def test_an_adapter_file_fills_the_inputs_of_a_graph(world):
    tmp_path, prompt, _, _ = world
    with open_folder(tmp_path, tmp_path / "model") as model:
        adapters = Adapters(model)
        adapters.load(tmp_path / "x.onnx_adapter", "x")
        _, plain = greedy(model, prompt)
        tokens, logits = greedy(model, prompt, adapters, "x")
    want = FolderRunner(tmp_path / "merged")(prompt)[-1]
    spread = float(np.ptp(want))
    assert np.abs(logits - want).max() < 1e-4 * spread, f"seed {SEED}"
    assert np.abs(plain - want).max() > 0.02 * spread
    with open_folder(tmp_path, tmp_path / "merged") as model:
        assert greedy(model, prompt)[0] == tokens, f"seed {SEED}"


def test_inputs_without_defaults_are_zeros_without_an_adapter(world, tmp_path):
    root, prompt, _, _ = world
    build(root / "checkpoint", tmp_path / "bare", options=BuildOptions("fp32"))
    with open_folder(tmp_path, tmp_path / "bare") as model:
        want = greedy(model, prompt)
    add_inputs(tmp_path / "bare", defaults=False)
    with open_folder(tmp_path, tmp_path / "bare") as model:
        tokens, logits = greedy(model, prompt)
        np.testing.assert_allclose(logits, want[1], atol=1e-4)
        assert tokens == want[0]
        adapters = Adapters(model)
        adapters.load(root / "x.onnx_adapter", "x")
        assert np.abs(greedy(model, prompt, adapters, "x")[1] - logits).max() > 0.02 * np.ptp(logits)


def test_files_for_other_inputs_or_sizes_are_refused(world, tmp_path):
    root, _, names, _ = world
    with open_folder(tmp_path, root / "model") as model:
        for values, message in (
            ({"nobody.lora_A.weight": np.zeros((2, 2), np.float32)}, r"no inputs \['nobody.lora_A.weight'\]"),
            ({next(iter(names)): np.zeros((3, 2), np.float32)}, r"is \[3, 2\], expected \[\d+, 2\]"),
        ):
            file = ort.AdapterFormat()
            file.set_parameters({k: ort.OrtValue.ortvalue_from_numpy(v) for k, v in values.items()})
            file.export_adapter(str(tmp_path / "bad.onnx_adapter"))
            with pytest.raises(ModelFileError, match=message):
                Adapters(model).load(tmp_path / "bad.onnx_adapter", "bad")


def test_two_files_for_the_same_inputs_do_not_act_together(world, tmp_path):
    root, _, _, _ = world
    with open_folder(tmp_path, root / "model") as model:
        adapters = Adapters(model)
        adapters.load(root / "x.onnx_adapter", "x")
        adapters.load(root / "x.onnx_adapter", "y")
        params = GeneratorParams(model)
        params.set_search_options(max_length=10)
        g = Generator(model, params)
        g.set_active_adapter(adapters, "x")
        with pytest.raises(OptionError, match="more than one has a value for the graph input"):
            g.set_active_adapter(adapters, "y")


def test_the_native_backend_says_who_reads_such_files(world):
    root, _, _, _ = world
    native = RuntimeConfig(backend="native", cache_dir=root / "cache")
    with (
        Model(root / "merged", runtime=native) as model,
        pytest.raises(CapabilityError, match="only the ort backend"),
    ):
        Adapters(model).load(root / "x.onnx_adapter", "x")


@pytest.mark.interop
def test_onnxruntime_genai_chooses_the_same_tokens_under_the_same_file(world):
    genai = pytest.importorskip("onnxruntime_genai")
    tmp_path, prompt, _, _ = world
    with open_folder(tmp_path, tmp_path / "model") as ours:
        adapters = Adapters(ours)
        adapters.load(tmp_path / "x.onnx_adapter", "x")
        wanted = {None: greedy(ours, prompt)[0], "x": greedy(ours, prompt, adapters, "x")[0]}
    assert wanted[None] != wanted["x"]
    model = genai.Model(str(tmp_path / "model"))
    theirs = genai.Adapters(model)
    theirs.load(str(tmp_path / "x.onnx_adapter"), "x")
    for name, tokens in wanted.items():
        params = genai.GeneratorParams(model)
        params.set_search_options(max_length=len(prompt) + NEW, min_length=len(prompt) + NEW, do_sample=False)
        generator = genai.Generator(model, params)
        if name is not None:
            generator.set_active_adapter(theirs, name)
        generator.append_tokens(np.array([prompt], dtype=np.int32))
        while not generator.is_done():
            generator.generate_next_token()
        assert list(generator.get_sequence(0))[len(prompt) :] == tokens, f"seed {SEED}"
        del generator, params
    del theirs, model


def test_run_options_of_onnxruntime_give_the_same_logits(world):
    tmp_path, prompt, _, _ = world
    decoder = json.loads((tmp_path / "model" / "genai_config.json").read_text())["model"]["decoder"]
    session = ort.InferenceSession(str(tmp_path / "model" / "model.onnx"), providers=["CPUExecutionProvider"])
    shape = (1, decoder["num_key_value_heads"], 0, decoder["head_size"])
    feeds = {"input_ids": np.array([prompt]), "attention_mask": np.ones((1, len(prompt)), np.int64)}
    feeds |= {
        f"past_key_values.{i}.{part}": np.zeros(shape, np.float32)
        for i in range(decoder["num_hidden_layers"])
        for part in ("key", "value")
    }
    adapter = ort.LoraAdapter()
    adapter.Load(str(tmp_path / "x.onnx_adapter"))
    options = ort.RunOptions()
    options.add_active_adapter(adapter)
    (theirs,) = session.run(["logits"], feeds, options)
    with open_folder(tmp_path, tmp_path / "model") as model:
        adapters = Adapters(model)
        adapters.load(tmp_path / "x.onnx_adapter", "x")
        _, ours = greedy(model, prompt, adapters, "x")
    np.testing.assert_allclose(ours, theirs[0, -1], atol=1e-3, err_msg=f"seed {SEED}")
