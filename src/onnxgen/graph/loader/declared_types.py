"""Types that a file declares, made such that the graph representation can hold them."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.ir.types import MapType, OptionalType, SequenceType, TensorType, ValueType
from onnxgen.graph.loader.defects import Defects
from onnxgen.graph.loader.walk import proto_graphs

_DEEPEST = 16


def clean_types(model: onnx.ModelProto, defects: Defects) -> dict[str, ValueType]:
    """Report inputs of the model whose types mean nothing, and drop other declarations of that kind.

    What a file says of values other than inputs is a hint: where it is unusable, it goes. Negative dimensions are
    unknown ones, as in ONNX Runtime.

    Returns:
        Types of values that have maps in them, by name; onnx-ir has no maps.
    """
    maps: dict[str, ValueType] = {}
    inputs = {value.name for value in model.graph.input}
    for graph in proto_graphs(model):
        for value in (*graph.input, *graph.output, *graph.value_info):
            if not value.HasField("type"):
                continue
            try:
                declared = proto_type(value.type)
            except InvalidGraphError as cause:
                if graph is model.graph and value.name in inputs:
                    defects.add(f"input {value.name!r}: {cause}")
                value.ClearField("type")
                continue
            if has_map(declared):
                maps[value.name] = declared
                value.ClearField("type")
            else:
                _tidy(value.type)
    return maps


def proto_type(declared: onnx.TypeProto, depth: int = 0) -> ValueType:
    """A declared type.

    Raises:
        InvalidGraphError: It has an unknown element type, or is of a kind that no operator takes.
    """
    kind = declared.WhichOneof("value")
    if depth > _DEEPEST:
        raise InvalidGraphError(f"its type is nested more than {_DEEPEST} deep")
    if kind in ("tensor_type", "sparse_tensor_type"):
        tensor = declared.tensor_type if kind == "tensor_type" else declared.sparse_tensor_type
        return TensorType(_element(tensor.elem_type), _shape(tensor) if tensor.HasField("shape") else None)
    if kind == "sequence_type":
        return SequenceType(proto_type(declared.sequence_type.elem_type, depth + 1))
    if kind == "optional_type":
        return OptionalType(proto_type(declared.optional_type.elem_type, depth + 1))
    if kind == "map_type":
        return MapType(
            _element(declared.map_type.key_type), proto_type(declared.map_type.value_type, depth + 1)
        )
    raise InvalidGraphError("its type is opaque" if kind else "its type says nothing")


def has_map(declared: ValueType) -> bool:
    """Whether a type is a map or contains one."""
    if isinstance(declared, SequenceType | OptionalType):
        return has_map(declared.element)
    return isinstance(declared, MapType)


def _element(number: int) -> ir.DataType:
    try:
        dtype = ir.DataType(number)
    except ValueError:
        raise InvalidGraphError(f"its element type is {number}, which does not exist") from None
    if dtype is ir.DataType.UNDEFINED:
        raise InvalidGraphError("its type has no element type")
    return dtype


def _shape(tensor: onnx.TypeProto.Tensor | onnx.TypeProto.SparseTensor) -> tuple[int | str | None, ...]:
    return tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param or None
        for dim in tensor.shape.dim
    )


def _tidy(declared: onnx.TypeProto) -> None:
    """Forget negative dimensions, and symbols and denotations that are not UTF-8."""
    if isinstance(declared.denotation, bytes):
        declared.ClearField("denotation")
    kind = declared.WhichOneof("value")
    if kind in ("sequence_type", "optional_type"):
        _tidy(getattr(declared, kind).elem_type)
        return
    for dim in getattr(declared, kind or "tensor_type").shape.dim:
        if dim.dim_value < 0:
            dim.ClearField("dim_value")
        for field in ("dim_param", "denotation"):
            if isinstance(getattr(dim, field), bytes):
                dim.ClearField(field)
