"""Random tensors: normal, uniform, Bernoulli, multinomial, and Dropout, also in the fused forms of ``com.microsoft``.

Every kernel has a generator of its own, which several threads may draw from. With a ``seed`` attribute the stream of
a freshly compiled node is always the same; without one it is different in every process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.casting import cast
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.memory import require_memory
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.types import numpy_dtype

TABLE = KernelTable()

_DRAWN = np.dtype(np.float64)

Draw = Callable[[tuple[int, ...]], np.ndarray]


def _generator(node: NodeSpec) -> np.random.Generator:
    seed = node.attr("seed")
    if isinstance(seed, float):
        seed = int(np.float32(seed).view(np.uint32))
    return np.random.default_rng(None if seed is None else seed % (1 << 64))


def _dtype(node: NodeSpec, otherwise: np.dtype) -> np.dtype:
    dtype = node.attr("dtype")
    return otherwise if dtype is None else numpy_dtype(ir.DataType(dtype))


def _normal(node: NodeSpec) -> Draw:
    generator, mean, scale = _generator(node), node.attr("mean", 0.0), node.attr("scale", 1.0)
    return lambda shape: generator.normal(mean, scale, shape)


def _uniform(node: NodeSpec) -> Draw:
    generator, low, high = _generator(node), node.attr("low", 0.0), node.attr("high", 1.0)
    return lambda shape: generator.uniform(low, high, shape)


def _register(op_type: str, drawing: Callable[[NodeSpec], Draw]) -> None:
    @TABLE.operator(op_type, 1, 22, name=op_type.lower())
    def by_shape(node: NodeSpec) -> Kernel:
        draw, shape = drawing(node), tuple(node.attr("shape"))
        dtype = _dtype(node, np.dtype(np.float32))
        if min(shape, default=0) < 0:
            raise InvalidGraphError(f"{node}: shape {list(shape)} has a negative dimension")

        def run() -> np.ndarray:
            require_memory(node, shape, _DRAWN)
            return cast(np.asarray(draw(shape)), dtype)

        return Kernel(run)

    @TABLE.operator(f"{op_type}Like", 1, 22, name=f"{op_type.lower()}_like")
    def by_tensor(node: NodeSpec) -> Kernel:
        draw = drawing(node)

        def run(like: np.ndarray) -> np.ndarray:
            return cast(np.asarray(draw(like.shape)), _dtype(node, like.dtype))

        return Kernel(run)


_register("RandomNormal", _normal)
_register("RandomUniform", _uniform)


@TABLE.operator("Bernoulli", 15, 22)
def bernoulli(node: NodeSpec) -> Kernel:
    """1 with the probability that the input says for each element, else 0."""
    generator = _generator(node)

    def run(probability: np.ndarray) -> np.ndarray:
        drawn = np.asarray(generator.random(probability.shape) < widened(probability))
        return cast(drawn, _dtype(node, probability.dtype))

    return Kernel(run)


@TABLE.operator("Multinomial", 7, 22)
def multinomial(node: NodeSpec) -> Kernel:
    """Classes drawn from unnormalized logarithms of probabilities (batch, classes)."""
    generator, samples = _generator(node), node.attr("sample_size", 1)
    dtype = _dtype(node, np.dtype(np.int32))

    def run(logits: np.ndarray) -> np.ndarray:
        batch, classes = logits.shape
        if batch and not classes:
            raise KernelError(f"{node}: there is no class to draw from")
        if samples < 0:
            raise KernelError(f"{node}: sample_size {samples} is negative")
        require_memory(node, (batch, samples), _DRAWN)
        wide = logits.astype(np.float64)
        weights = np.exp(wide - wide.max(1, keepdims=True)) if wide.size else wide
        cumulative = weights.cumsum(1)
        draws = generator.random((batch, samples))
        drawn = np.empty((batch, samples), dtype)
        for row in range(batch):
            edges = cumulative[row]
            drawn[row] = np.searchsorted(edges, draws[row] * edges[-1], side="right")
        return np.minimum(drawn, dtype.type(max(classes - 1, 0)))

    return Kernel(run)


def _dropout_draws(node: NodeSpec) -> Draw:
    """Uniform numbers; with a seed they are those that onnx.reference draws, so that masks can be compared."""
    seed = node.attr("seed")
    if seed is None:
        return np.random.default_rng().random
    legacy = np.random.RandomState(seed % (1 << 32))
    return lambda shape: legacy.uniform(0, 1, shape)


def _dropped(draw: Draw, x: np.ndarray, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """Zero with probability ``ratio``, the rest scaled by ``1 / (1 - ratio)``; and what was kept."""
    if not 0 <= ratio < 1:
        raise KernelError(f"Dropout with ratio {ratio}: it must be at least 0 and less than 1")
    kept = np.asarray(draw(x.shape) >= ratio)
    return np.asarray(widened(x) * kept * np.float32(1 / (1 - ratio))).astype(x.dtype), kept


@TABLE.operator("Dropout", 12, 13, 22)
def dropout(node: NodeSpec) -> Kernel:
    """The data itself, or with a true ``training_mode`` input randomly dropped elements of it."""
    draw, wants_mask = _dropout_draws(node), len(node.outputs) > 1

    def run(x: np.ndarray, ratio: np.ndarray | None = None, training: np.ndarray | None = None) -> Any:
        share = 0.5 if ratio is None else float(ratio.item())
        if training is None or not training.item() or share == 0:
            return (x, np.ones(x.shape, bool)) if wants_mask else x
        y, kept = _dropped(draw, x, share)
        return (y, kept) if wants_mask else y

    return Kernel(run, may_alias=((0, 0),))


@TABLE.operator("Dropout", 7, 10, name="dropout/inference")
def dropout_7(node: NodeSpec) -> Kernel:
    """The data itself; the mask says nothing without training, and is of zeros as in ONNX Runtime."""

    def run(x: np.ndarray) -> Any:
        mask_dtype = x.dtype if node.since_version == 7 else np.dtype(bool)
        return (x, np.zeros(x.shape, mask_dtype)) if len(node.outputs) > 1 else x

    return Kernel(run, may_alias=((0, 0),))


@TABLE.operator("Dropout", 1, 6, name="dropout/is_test")
def dropout_1(node: NodeSpec) -> Kernel:
    """Randomly dropped elements, or with ``is_test`` the data itself and no mask."""
    draw, ratio, is_test = _dropout_draws(node), node.attr("ratio", 0.5), bool(node.attr("is_test", 0))

    def run(x: np.ndarray) -> Any:
        y, kept = (x, None) if is_test else _dropped(draw, x, ratio)
        mask = None if kept is None else kept.astype(x.dtype)
        return (y, mask) if len(node.outputs) > 1 else y

    return Kernel(run, may_alias=((0, 0),))


def _trains(node: NodeSpec) -> str | None:
    place = 2 if node.op_type == "BitmaskDropout" else 4
    mode = node.constants.get(place)
    if node.has_input(place) and (mode is None or mode.any()):
        return "fused with others, dropout is not done in training mode"
    return None


@TABLE.operator("BiasDropout", 1, domain=MICROSOFT, why_not=_trains)
@TABLE.operator("BitmaskDropout", 1, domain=MICROSOFT, why_not=_trains)
@TABLE.operator("BitmaskBiasDropout", 1, domain=MICROSOFT, why_not=_trains)
def fused_dropout(node: NodeSpec) -> Kernel:
    """At inference the data, with a bias the sum of data, bias and residual; and a mask of ones, as bits 32 to an element."""
    terms = 1 if node.op_type == "BitmaskDropout" else 3

    def run(*inputs: np.ndarray | None) -> Any:
        data, *others = (term for term in inputs[:terms] if term is not None)
        total = widened(data)
        for other in others:
            total = total + widened(other)
        y = np.array(total, data.dtype)
        if len(node.outputs) == 1:
            return y
        if node.op_type == "BiasDropout":
            return y, np.ones(y.shape, bool)
        return y, np.full(-(-y.size // 32), 0xFFFFFFFF, np.uint32)

    return Kernel(run)
