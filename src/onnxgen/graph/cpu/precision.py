"""The type in which kernels compute what NumPy cannot compute well, or not at all."""

from __future__ import annotations

import numpy as np

from onnxgen.graph.ir.types import is_ml_dtype


def compute_dtype(dtype: np.dtype) -> np.dtype:
    """float32 for float16, bfloat16 and smaller floats; the type itself for float32 and float64."""
    return np.dtype(np.float32) if dtype == np.float16 or is_ml_dtype(dtype) else dtype


def widened(x: np.ndarray) -> np.ndarray:
    """The array in its `compute_dtype`; itself where that is its own."""
    return x.astype(compute_dtype(x.dtype), copy=False)
