"""The shape of emitted graphs: operators, names and what ONNX Runtime and others rely on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import pytest

from checkpoints import CHECKPOINTS
from memory_source import random_source
from onnxgen.builder import BuildOptions, build


def _graph(name: str, tmp_path: Path, **options: object) -> onnx.GraphProto:
    source = random_source(CHECKPOINTS[name].config, tmp_path / "source", 3)
    build(source, tmp_path / "model", options=BuildOptions(**options))
    model = onnx.load(tmp_path / "model" / "model.onnx", load_external_data=False)
    assert model.ir_version <= 12
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": 23, "com.microsoft": 1}
    return model.graph


def _shape(value: onnx.ValueInfoProto) -> list[int | str]:
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


def test_inputs_and_outputs_are_those_onnxruntime_genai_expects(tmp_path: Path) -> None:
    graph = _graph("llama", tmp_path)
    inputs = {value.name: _shape(value) for value in graph.input}
    assert inputs["input_ids"] == ["batch_size", "sequence_length"]
    assert inputs["attention_mask"] == ["batch_size", "total_sequence_length"]
    assert inputs["past_key_values.1.value"] == ["batch_size", 2, "past_sequence_length", 16]
    outputs = {value.name: _shape(value) for value in graph.output}
    assert outputs["logits"] == ["batch_size", "sequence_length", CHECKPOINTS["llama"].config["vocab_size"]]
    assert outputs["present.0.key"] == ["batch_size", 2, "total_sequence_length", 16]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "llama",
            {"SimplifiedLayerNormalization": 1, "SkipSimplifiedLayerNormalization": 4, "MatMulNBits": 11},
        ),
        ("qwen3", {"SimplifiedLayerNormalization": 5, "SkipSimplifiedLayerNormalization": 4, "Split": 2}),
        ("phi3", {"SimplifiedLayerNormalization": 1, "QuickGelu": 2, "GatherBlockQuantized": 1}),
    ],
)
def test_each_idea_is_one_operator(name: str, expected: dict[str, int], tmp_path: Path) -> None:
    config = CHECKPOINTS[name].config
    graph = _graph(name, tmp_path, num_layers=2)
    counts = Counter(node.op_type for node in graph.node)
    assert {op: counts[op] for op in expected} == expected
    assert counts["GroupQueryAttention"] == 2
    assert config["num_hidden_layers"] >= 2


def test_gemma_fuses_residual_sums_and_keeps_its_own_norms_apart(tmp_path: Path) -> None:
    graph = _graph("gemma3", tmp_path, precision="fp32")
    layers = CHECKPOINTS["gemma3"].config["num_hidden_layers"]
    counts = Counter(node.op_type for node in graph.node)
    # One first norm; in each layer a query, a key and two branch norms.
    assert counts["SimplifiedLayerNormalization"] == 1 + layers * 4
    assert counts["SkipSimplifiedLayerNormalization"] == layers * 2
    assert counts["FusedMatMul"] == 1 and counts["Add"] == 0
    attention = [node for node in graph.node if node.op_type == "GroupQueryAttention"]
    assert len({tuple(node.input[7:9]) for node in attention}) == 2


def test_the_quantized_embedding_and_the_head_share_their_bytes(tmp_path: Path) -> None:
    graph = _graph("llama", tmp_path)
    places = {
        tensor.name: {entry.key: entry.value for entry in tensor.external_data}
        for tensor in graph.initializer
        if tensor.external_data
    }
    gather = next(node for node in graph.node if node.op_type == "GatherBlockQuantized")
    head = next(node for node in graph.node if node.name == "/lm_head/MatMulNBits")
    for key in ("location", "offset", "length"):
        assert places[gather.input[0]][key] == places[head.input[1]][key]
    assert gather.input[2] == head.input[2]


def test_names_are_unique_and_no_initializer_is_unused(tmp_path: Path) -> None:
    for name in ("llama-untied", "gemma3", "phi3-longrope"):
        graph = _graph(name, tmp_path / name)
        names = [node.name for node in graph.node]
        assert len(names) == len(set(names))
        used = {value for node in graph.node for value in node.input}
        used |= {
            value
            for node in graph.node
            for attribute in node.attribute
            for inner in attribute.g.node
            for value in inner.input
        }
        assert {tensor.name for tensor in graph.initializer} <= used


def test_options_reach_the_operators(tmp_path: Path) -> None:
    graph = _graph("llama", tmp_path, block_size=64, accuracy_level=0, head_bits=4)
    products = [node for node in graph.node if node.op_type == "MatMulNBits"]
    assert products
    for node in products:
        attributes = {attribute.name: attribute.i for attribute in node.attribute}
        assert attributes["block_size"] == 64
        assert attributes["accuracy_level"] == 0
        assert attributes["bits"] == 4


def test_windows_reach_attention(tmp_path: Path) -> None:
    graph = _graph("mistral", tmp_path)
    window = CHECKPOINTS["mistral"].config["sliding_window"]
    attention = [node for node in graph.node if node.op_type == "GroupQueryAttention"]
    assert attention
    for node in attention:
        attributes = {attribute.name: attribute for attribute in node.attribute}
        assert attributes["local_window_size"].i == window
        assert attributes["do_rotary"].i == 1
