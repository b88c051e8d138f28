"""Sparse tensors of protobufs as dense ones."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

from onnxgen.graph.ir.attributes import tensor_array
from onnxgen.graph.loader.data_files import DataFiles
from onnxgen.graph.loader.tensors import TensorDefectError, num_bytes, read_dims, read_tensor

_MOST_BYTES = 2**31


def dense_tensor(sparse: onnx.SparseTensorProto, files: DataFiles) -> ir.TensorProtocol:
    """Write the values of a sparse tensor into zeros (empty strings for strings).

    Indices are positions in the flattened tensor (``[values]``) or coordinates (``[values, rank]``).

    Raises:
        TensorDefectError: Values and indices do not fit each other or the dimensions, or the dense tensor would
            take more than 2 GiB.
        ModelFileError: As for dense tensors in files.
    """
    dims = read_dims(sparse.dims)
    values = read_tensor(sparse.values, files)
    if num_bytes(values.dtype, dims) > _MOST_BYTES:
        raise TensorDefectError(f"with dimensions {list(dims)} would take more than 2 GiB as a dense tensor")
    elements = tensor_array(values)
    if elements.ndim != 1:
        raise TensorDefectError(f"has values of rank {elements.ndim}, expected 1")
    flat = _positions(tensor_array(read_tensor(sparse.indices, files)), len(elements), dims)
    dense = (
        np.full(dims, "", object) if values.dtype is ir.DataType.STRING else np.zeros(dims, elements.dtype)
    )
    dense.reshape(-1)[flat] = elements
    name = sparse.values.name
    if values.dtype is ir.DataType.STRING:
        strings = [text.encode("utf-8", "surrogateescape") for text in dense.reshape(-1)]
        return ir.StringTensor(strings, shape=ir.Shape(dims), name=name)
    return ir.Tensor(dense, values.dtype, name=name)


def _positions(indices: np.ndarray, num_values: int, dims: tuple[int, ...]) -> np.ndarray:
    if indices.dtype != np.int64:
        raise TensorDefectError(f"has indices of type {indices.dtype}, expected int64")
    if indices.shape not in ((num_values,), (num_values, len(dims))):
        raise TensorDefectError(
            f"has {num_values} values and indices of shape {list(indices.shape)}, "
            f"expected {[num_values]} or {[num_values, len(dims)]}"
        )
    limits = np.array(dims, np.int64) if indices.ndim == 2 else np.prod(dims, dtype=np.int64)
    if np.any(indices < 0) or np.any(indices >= limits):
        raise TensorDefectError(f"has indices outside of its dimensions {list(dims)}")
    if indices.ndim == 1:
        return indices
    if not dims:
        return np.zeros(num_values, np.int64)
    return np.asarray(np.ravel_multi_index(tuple(indices.T), dims))
