"""Outputs by name and inputs by name: what onnxruntime-genai gives, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import onnxgen
from onnxgen.foundations.runtime_config import RuntimeConfig
from split_embedding import write_split_folder
from tiny_decoders import Sizes, Style, TinyDecoder
from tiny_graph_folder import write_graph_folder

genai = pytest.importorskip("onnxruntime_genai", reason="needs the extra: interop")

pytestmark = pytest.mark.interop

LAYERS = 2
STYLES = {"gqa": Style(hidden_states=True), "plain": Style("plain")}


def give_out(model: onnx.ModelProto) -> None:
    """A further output of each token, and one of the call."""
    graph = model.graph
    looked_up = next(
        node.output[0] for node in graph.node if node.op_type == "Gather" and "input_ids" in node.input
    )
    graph.node.append(helper.make_node("Mul", [looked_up, looked_up], ["squares"]))
    graph.node.append(helper.make_node("Shape", ["attention_mask"], ["mask_shape"]))
    graph.output.append(helper.make_tensor_value_info("squares", TensorProto.FLOAT, ["batch", "seq", 32]))
    graph.output.append(helper.make_tensor_value_info("mask_shape", TensorProto.INT64, [2]))


def take_scale(name: str) -> Any:
    """A scalar input that is added to the logits."""

    def edit(model: onnx.ModelProto) -> None:
        graph = model.graph
        head = next(node for node in graph.node if node.output[0] == "logits")
        head.output[0] = "logits_0"
        graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT64, []))
        graph.node.append(helper.make_node("Cast", [name], ["as_float"], to=TensorProto.FLOAT))
        graph.node.append(helper.make_node("Mul", ["as_float", "logits_0"], ["scaled"]))
        graph.node.append(helper.make_node("Add", ["scaled", "logits_0"], ["logits"]))

    return edit


class Pair:
    """A generator of each over one folder."""

    def __init__(self, path: Path, cache: Path, backend: str = "auto", **options: Any) -> None:
        runtime = RuntimeConfig(backend=backend, threads=1, cache_dir=cache)
        self.ours = self._open(onnxgen, onnxgen.Model(path, runtime=runtime), options)
        self.theirs = self._open(genai, genai.Model(str(path)), options)

    @staticmethod
    def _open(og: Any, model: Any, options: dict[str, Any]) -> Any:
        params = og.GeneratorParams(model)
        params.set_search_options(**options)
        return og.Generator(model, params)

    def both(self, name: str, *arguments: Any) -> None:
        for generator in (self.ours, self.theirs):
            getattr(generator, name)(*arguments)

    def compare(self, name: str, tolerance: float = 2e-4) -> np.ndarray:
        mine, other = self.ours.get_output(name), np.asarray(self.theirs.get_output(name))
        assert mine.shape == other.shape, name
        assert mine.dtype == other.dtype, name
        np.testing.assert_allclose(mine, other, atol=tolerance, rtol=1e-3, err_msg=name)
        return mine


def with_clear_answers(
    rng: np.random.Generator, rows: int, *, num_tokens: int
) -> tuple[TinyDecoder, np.ndarray]:
    """A decoder and prompts, int32 ``[rows, 5]``, that no rounding sends another way, and that none of the answers ends."""
    while True:
        decoder = TinyDecoder(Sizes(), int(rng.integers(2**32)))
        prompts = rng.integers(1, decoder.sizes.vocab - 1, (rows, 5)).astype(np.int32)
        if all(_is_clear(decoder, prompt.tolist(), num_tokens) for prompt in prompts):
            return decoder, prompts


def _is_clear(decoder: TinyDecoder, tokens: list[int], num_tokens: int) -> bool:
    for _ in range(num_tokens):
        logits = decoder.logits(tokens)[-1]
        second, best = np.argsort(logits)[-2:].tolist()
        if best == decoder.sizes.vocab - 1 or logits[best] - logits[second] < 0.05:
            return False
        tokens = [*tokens, best]
    return True


@pytest.mark.parametrize("backend", ["auto", "ort"])
@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize("rows", [1, 3])
def test_every_output_is_theirs(tmp_path: Path, style: Style, rows: int, backend: str) -> None:
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    decoder, prompts = with_clear_answers(np.random.default_rng(seed), rows, num_tokens=6)
    path = write_graph_folder(tmp_path / "model", decoder, style, edit=give_out)
    pair = Pair(path, tmp_path / "cache", backend, batch_size=rows, max_length=20)
    pair.both("append_tokens", prompts)
    caches = [f"present.{i}.{part}" for i in range(LAYERS) for part in ("key", "value")]
    names = [*caches, "squares", "mask_shape"]
    names += ["hidden_states"] if style.hidden_states else []
    for step in range(6):
        for name in names if step != 2 else ():  # nobody asks: the next ones have to catch up
            # of the executor's own steps, whose caches hold 16 bits there
            pair.compare(name, 0.05 if name == "hidden_states" and backend == "auto" else 2e-4)
        if style.attention == "gqa" and backend == "ort":
            pair.compare("logits")
        pair.both("generate_next_token")
    if rows == 1:
        pair.both("rewind_to", 3)
        pair.both("append_tokens", np.array([[7, 9]], np.int32))
        for name in names:
            pair.compare(name, 0.05)


@pytest.mark.parametrize("asked_first", [0, 3])
@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_outputs_of_padded_rows_are_theirs(tmp_path: Path, style: Style, asked_first: int) -> None:
    path = write_graph_folder(tmp_path / "model", TinyDecoder(Sizes(), 5), style, edit=give_out)
    pair = Pair(path, tmp_path / "cache", batch_size=2, max_length=20)
    pair.both("append_tokens", np.array([[5, 6, 7, 8], [9, 10, 0, 0]], np.int32))
    for step in range(6):
        if step >= asked_first:
            mine, other = (np.asarray(g.get_output("present.0.key")) for g in (pair.ours, pair.theirs))
            assert mine.shape == other.shape
            np.testing.assert_allclose(mine[0], other[0], atol=2e-4)
            pair.compare("mask_shape")
        pair.both("generate_next_token")


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_what_a_graph_has_of_its_own_is_given_by_name(tmp_path: Path, style: Style) -> None:
    path = write_graph_folder(tmp_path / "model", TinyDecoder(Sizes(), 5), style, edit=take_scale("volume"))
    pair = Pair(path, tmp_path / "cache", max_length=12)
    volume = np.array(3, np.int64)  # theirs reads it where it is, as long as it runs
    pair.both("set_model_input", "volume", volume)
    pair.both("append_tokens", np.array([[5, 6, 7]], np.int32))
    for _ in range(4):
        pair.compare("logits")
        pair.both("generate_next_token")
    assert pair.ours.get_sequence(0).tolist() == pair.theirs.get_sequence(0).tolist()


@pytest.mark.parametrize("name", ["num_logits_to_keep", "onnx::Neg_67"])
def test_how_many_logits_to_keep_has_a_value_of_its_own(tmp_path: Path, name: str) -> None:
    path = write_graph_folder(tmp_path / "model", TinyDecoder(Sizes(), 5), Style(), edit=take_scale(name))
    pair = Pair(path, tmp_path / "cache", "ort", max_length=12, batch_size=2)
    pair.both("append_tokens", np.array([[5, 6, 7], [7, 8, 9]], np.int32))
    for _ in range(4):
        pair.compare("logits")
        pair.both("generate_next_token")


def test_a_value_that_is_missing_is_named(tmp_path: Path) -> None:
    path = write_graph_folder(tmp_path / "model", TinyDecoder(Sizes(), 5), Style(), edit=take_scale("abcde"))
    pair = Pair(path, tmp_path / "cache", max_length=12)
    for generator in (pair.ours, pair.theirs):
        with pytest.raises(Exception, match=r"(?i)missing input.*abcde"):
            generator.append_tokens(np.array([[5, 6, 7]], np.int32))


@pytest.mark.parametrize("keeps_ids", [False, True])
def test_a_decoder_behind_an_embedding_graph_answers_as_theirs(tmp_path: Path, keeps_ids: bool) -> None:
    vision = {"filename": "vision.onnx", "inputs": {"pixel_values": "pixel_values"}}
    path = write_split_folder(
        tmp_path / "model", TinyDecoder(Sizes(), 5), Style(), keeps_ids=keeps_ids, type="phi3v", vision=vision
    )
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Identity", ["pixel_values"], ["image_features"])],
        "vision",
        [value("pixel_values", TensorProto.FLOAT, ["images", 32])],
        [value("image_features", TensorProto.FLOAT, ["images", 32])],
    )
    opsets = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=opsets), path / "vision.onnx")
    pair = Pair(path, tmp_path / "cache", max_length=12)
    pair.both("append_tokens", np.array([[5, 6, 7]], np.int32))
    for _ in range(5):
        pair.compare("logits")
        pair.both("generate_next_token")
    assert pair.ours.get_sequence(0).tolist() == pair.theirs.get_sequence(0).tolist()
