"""Features of classical models: Scaler, Normalizer, Imputer, Binarizer, FeatureVectorizer, ArrayFeatureExtractor."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.indexing import checked_indices
from onnxgen.graph.cpu.registry import ML, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("Scaler", 1, domain=ML)
def scaler(node: NodeSpec) -> Kernel:
    """``(x - offset) * scale``, float32; one number for all features or one for each."""
    offset, scale = (np.array(node.attr(name, ()), np.float32) for name in ("offset", "scale"))
    if not offset.size or offset.size != scale.size:
        raise InvalidGraphError(
            f"{node}: {offset.size} offsets and {scale.size} scales; give as many of each"
        )

    def run(x: np.ndarray) -> np.ndarray:
        if offset.size not in (1, x.shape[-1]):
            raise KernelError(f"{node}: {offset.size} offsets for {x.shape[-1]} features")
        return ((x - offset) * scale).astype(np.float32)

    return Kernel(run)


@TABLE.operator("Normalizer", 1, domain=ML)
def normalizer(node: NodeSpec) -> Kernel:
    """Rows divided by their largest value (NaN aside), the sum of magnitudes, or the Euclidean norm, where that is not 0."""
    norms: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "MAX": lambda x: np.fmax.reduce(x, axis=-1, keepdims=True, initial=-np.inf),
        "L1": lambda x: np.abs(x).sum(axis=-1, keepdims=True),
        "L2": lambda x: np.sqrt(np.square(x).sum(axis=-1, keepdims=True)),
    }
    name = node.attr("norm", "MAX")
    if name not in norms:
        raise InvalidGraphError(f"{node}: norm {name!r} is none of {', '.join(norms)}")
    norm = norms[name]

    def run(x: np.ndarray) -> np.ndarray:
        divisor = norm(x.astype(np.float32))
        return (x / np.where(divisor == 0, 1, divisor)).astype(np.float32)

    return Kernel(run)


@TABLE.operator("Imputer", 1, domain=ML)
def imputer(node: NodeSpec) -> Kernel:
    """One value (NaN too) replaced, by one for all features or one for each."""
    floats, ints = node.attr("imputed_value_floats", ()), node.attr("imputed_value_int64s", ())
    if bool(floats) == bool(ints):
        raise InvalidGraphError(f"{node}: needs imputed values, either floats or integers")
    old = node.attr("replaced_value_float", 0.0) if floats else node.attr("replaced_value_int64", 0)

    def run(x: np.ndarray) -> np.ndarray:
        new = np.array(floats or ints, x.dtype)
        if new.size not in (1, x.shape[-1]):
            raise KernelError(f"{node}: {new.size} imputed values for {x.shape[-1]} features")
        where = np.isnan(x) if isnan(old) else x == x.dtype.type(old)
        return np.where(where, new, x)

    return Kernel(run)


@TABLE.operator("Binarizer", 1, domain=ML)
def binarizer(node: NodeSpec) -> Kernel:
    """1 above the threshold, 0 elsewhere."""
    threshold = node.attr("threshold", 0.0)

    def run(x: np.ndarray) -> np.ndarray:
        return np.asarray(x > x.dtype.type(threshold)).astype(x.dtype)

    return Kernel(run)


@TABLE.operator("FeatureVectorizer", 1, domain=ML)
def feature_vectorizer(node: NodeSpec) -> Kernel:
    """Inputs side by side in float32, each cut or filled with zeros to its width."""
    widths = node.attr("inputdimensions", ())

    def run(*inputs: np.ndarray) -> np.ndarray:
        if len(widths) not in (0, len(inputs)):
            raise KernelError(f"{node}: {len(widths)} inputdimensions for {len(inputs)} inputs")
        parts = [x.reshape(x.shape[0] if x.ndim > 1 else 1, -1).astype(np.float32) for x in inputs]
        for index, width in enumerate(widths):
            part = parts[index][:, :width]
            parts[index] = np.pad(part, ((0, 0), (0, width - part.shape[1])))
        return np.concatenate(parts, axis=1)

    return Kernel(run)


@TABLE.operator("ArrayFeatureExtractor", 1, domain=ML)
def array_feature_extractor(node: NodeSpec) -> Kernel:
    """Elements of the last axis, at the indices; of a vector they make one row."""

    def run(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        places = checked_indices(node, indices.reshape(-1), x.shape[-1])
        chosen = np.take(x, places, axis=-1)
        return chosen[None] if x.ndim == 1 else chosen

    return Kernel(run)
