"""Equal initializers of one graph become one."""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir

from onnxgen.graph.ir.attributes import tensor_array
from onnxgen.graph.optimizer.base import Pass
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.level import OptimizationLevel

_MAX_BYTES = 1 << 20  # comparing more would read weights that are mapped and not needed yet


def _run(context: Context) -> Counter[str]:
    return +Counter({"duplicate initializers merged": sum(map(_merge, context.graphs()))})


def _merge(graph: ir.Graph) -> int:
    first: dict[tuple[object, ...], ir.Value] = {}
    merged = 0
    for name, value in list(graph.initializers.items()):
        tensor = value.const_value
        if tensor is None or value.is_graph_input() or value.is_graph_output() or tensor.nbytes > _MAX_BYTES:
            continue
        kept = first.setdefault(_key(tensor), value)
        if kept is not value:
            value.replace_all_uses_with(kept)
            del graph.initializers[name]
            merged += 1
    return merged


def _key(tensor: ir.TensorProtocol) -> tuple[object, ...]:
    array = tensor_array(tensor)
    # Bytes, not values: 0.0 and -0.0 are equal and not the same, NaN is the other way round.
    content = tuple(array.reshape(-1)) if array.dtype == object else array.tobytes()
    return tensor.dtype, array.shape, content


DUPLICATE_INITIALIZERS = Pass("duplicate_initializers", OptimizationLevel.BASIC, _run)
