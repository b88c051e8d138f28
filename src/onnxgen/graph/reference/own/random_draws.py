"""Random operators: onnx.reference starts anew at every call, so that a seed gives the same values again and again."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnx.reference.op_run import OpRun

from onnxgen.graph.ir.types import numpy_dtype
from onnxgen.graph.reference.own.table import OwnOperators

OWN = OwnOperators()


class _Drawing(OpRun):
    """Has a generator for as long as the node lives: the same seed gives the same stream."""

    def __init__(self, onnx_node: Any, run_params: dict[str, Any]) -> None:
        super().__init__(onnx_node, run_params)
        seed = getattr(self, "seed", None)
        if isinstance(seed, float | np.floating):  # its bits are the number
            seed = None if np.isnan(seed) else int(np.float32(seed).view(np.uint32))
        # the old generator, because the standard's tests of Dropout were made with it
        self.generator = np.random.RandomState(None if seed is None else seed % 2**32)

    def _run(self, *inputs: Any, **attributes: Any) -> tuple[np.ndarray, ...]:
        raise NotImplementedError


def _type(number: int | None, otherwise: np.dtype) -> np.dtype:
    return numpy_dtype(ir.DataType(number)) if number else otherwise


@OWN.operator("RandomNormal", 1, 22)
class RandomNormal(_Drawing):
    """Normal numbers of a given shape."""

    def _run(self, *, dtype: int, mean: float, scale: float, shape: list[int], seed: Any) -> Any:
        return (np.asarray(self.generator.normal(mean, scale, shape)).astype(_type(dtype, np.dtype("f4"))),)


@OWN.operator("RandomNormalLike", 1, 22)
class RandomNormalLike(_Drawing):
    """Normal numbers of the shape, and if not said otherwise the type, of the input."""

    def _run(self, x: np.ndarray, *, dtype: int | None, mean: float, scale: float, seed: Any) -> Any:
        return (np.asarray(self.generator.normal(mean, scale, x.shape)).astype(_type(dtype, x.dtype)),)


@OWN.operator("RandomUniform", 1, 22)
class RandomUniform(_Drawing):
    """Uniform numbers of a given shape."""

    def _run(self, *, dtype: int, low: float, high: float, shape: list[int], seed: Any) -> Any:
        return (np.asarray(self.generator.uniform(low, high, shape)).astype(_type(dtype, np.dtype("f4"))),)


@OWN.operator("RandomUniformLike", 1, 22)
class RandomUniformLike(_Drawing):
    """Uniform numbers of the shape, and if not said otherwise the type, of the input."""

    def _run(self, x: np.ndarray, *, dtype: int | None, low: float, high: float, seed: Any) -> Any:
        return (np.asarray(self.generator.uniform(low, high, x.shape)).astype(_type(dtype, x.dtype)),)


@OWN.operator("Bernoulli", 15, 22)
class Bernoulli(_Drawing):
    """1 with the probability that the input says, else 0."""

    def _run(self, x: np.ndarray, *, dtype: int | None, seed: Any) -> Any:
        drawn = self.generator.random_sample(x.shape) < x.astype(np.float64)
        return (np.asarray(drawn).astype(_type(dtype, x.dtype)),)


@OWN.operator("Multinomial", 7, 22)
class Multinomial(_Drawing):
    """Classes drawn from unnormalized logarithms of probabilities (batch, classes)."""

    def _run(self, logits: np.ndarray, *, dtype: int, sample_size: int, seed: Any) -> Any:
        wide = logits.astype(np.float64)
        weights = np.exp(wide - wide.max(axis=1, keepdims=True, initial=-np.inf))
        edges = weights.cumsum(axis=1)
        draws = self.generator.random_sample((len(logits), sample_size))
        rows = [np.searchsorted(e, d * e[-1], side="right") for e, d in zip(edges, draws, strict=True)]
        drawn = np.array(rows).reshape(len(logits), sample_size)
        return (drawn.astype(_type(dtype, np.dtype("i4"))),)


@OWN.operator("Dropout", 12, 13, 22)
class Dropout(_Drawing):
    """The data; in training, zero with probability ``ratio`` and the rest scaled by ``1 / (1 - ratio)``."""

    def _run(
        self, x: np.ndarray, ratio: np.ndarray | None = None, training: np.ndarray | None = None, *, seed: Any
    ) -> Any:
        probability = 0.5 if ratio is None else float(ratio)
        if training is None or not bool(training) or probability == 0:
            return x, np.ones(x.shape, bool)
        kept = np.asarray(self.generator.uniform(0, 1, x.shape) >= probability)
        scaled = kept * x.astype(np.float64) / (1 - probability)
        return np.asarray(scaled).astype(x.dtype), kept
