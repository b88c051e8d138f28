"""Which operators treat every token by itself.

Activations of a decoder are laid out token after token, ``[batch, seq, width]``, or with a token's width
split further. An operator is tokenwise when each token's result depends on that token alone, so it gives
the same values whether tokens come padded, packed or picked out. Only attention and what belongs to it
may not be tokenwise; anything not proved here counts as mixing tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import onnx_ir as ir

IsConstant = Callable[[ir.Value], bool]

STANDARD, MICROSOFT = "", "com.microsoft"

# fmt: off
_ELEMENTWISE = frozenset(
    {
        "Abs", "Add", "And", "BiasGelu", "Cast", "Ceil", "Clip", "Cos", "Div", "Elu", "Equal",
        "Erf", "Exp", "FastGelu", "Floor", "Gelu", "Greater", "GreaterOrEqual", "HardSigmoid",
        "HardSwish", "Identity", "LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Min", "Mish",
        "Mod", "Mul", "Neg", "Not", "Or", "Pow", "QuickGelu", "Reciprocal", "Relu", "Round", "Selu",
        "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tanh",
        "Where", "Xor",
    }
)
# fmt: on
_LAST_AXIS_ATTRIBUTE: Mapping[str, int] = MappingProxyType(  # operator to its default axis, of any opset
    {
        "Concat": 0,
        "LayerNormalization": -1,
        "LogSoftmax": 1,
        "LpNormalization": -1,
        "RMSNormalization": -1,
        "SimplifiedLayerNormalization": -1,
        "Softmax": 1,
        "Split": 0,
        "TopK": -1,
    }
)
_LAST_AXIS_ALWAYS = frozenset({"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"})
_LAST_AXES_INPUT = frozenset(
    {"ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceSumSquare"}
)
_WEIGHT_SECOND = frozenset({"MatMul", "MatMulNBits", "MatMulBnb4", "FusedMatMul"})
_EXPERTS = frozenset({"MoE", "QMoE"})
_EMBEDDING = frozenset({"Gather", "GatherBlockQuantized"})
_ROTARY = "RotaryEmbedding"


def why_not_tokenwise(node: ir.Node, is_constant: IsConstant) -> str | None:
    """Say why a node may mix tokens; None when every token's result depends on that token alone.

    Inputs that are not constant are taken to be activations.
    """
    op = node.op_type
    if node.domain not in (STANDARD, "ai.onnx", MICROSOFT):
        return f"operator {node.domain}.{op} is not known"
    data = [v is not None and not is_constant(v) for v in node.inputs]
    if op in _ELEMENTWISE or op in _LAST_AXIS_ALWAYS:
        return None
    if op in _LAST_AXIS_ATTRIBUTE:
        return _needs_last_axis(node, _attribute(node, "axis", _LAST_AXIS_ATTRIBUTE[op]))
    if op in _WEIGHT_SECOND:
        if any(data[1:]) or _attribute(node, "transA", 0) or _attribute(node, "transBatchA", 0):
            return f"{op} {node.name} multiplies activations with each other"
        return None
    if op in _EXPERTS:
        return f"{op} {node.name} has computed weights" if any(data[2:]) else None
    if op in _EMBEDDING:
        return _why_not_lookup(node, data)
    if op == _ROTARY:
        return None
    if op in _LAST_AXES_INPUT:
        axes = constant_ints(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] is not None else None
        axes = axes or _attribute(node, "axes", None)
        if axes == [-1] and _attribute(node, "keepdims", 1) == 1:
            return None
        return f"{op} {node.name} reduces more than the last axis"
    if op == "Slice":
        axes = constant_ints(node.inputs[3]) if len(node.inputs) > 3 and node.inputs[3] is not None else None
        return None if axes == [-1] or axes == [2] else f"Slice {node.name} is not along the last axis"
    if op == "Reshape":
        return _why_not_reshape(node)
    return f"operator {op} is not known to treat tokens one by one"


def constant_ints(value: ir.Value | None) -> list[int] | None:
    """The content of a small constant integer tensor, flat; None when it is not one."""
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    if tensor is None or tensor.size > 16 or not tensor.dtype.is_integer():
        return None
    return [int(x) for x in tensor.numpy().reshape(-1)]


def _attribute(node: ir.Node, name: str, default: object) -> object:
    attribute = node.attributes.get(name)
    if attribute is None:
        return default
    value = attribute.value
    return list(value) if isinstance(value, tuple) else value


def _needs_last_axis(node: ir.Node, axis: object) -> str | None:
    # tokens lie along axis 0 or 1 in every layout that reaches here, so axis 2 and beyond is inside a token
    if axis == -1 or (isinstance(axis, int) and axis >= 2):
        return None
    return f"{node.op_type} {node.name} works along axis {axis}, not the last one"


def _why_not_lookup(node: ir.Node, data: list[bool]) -> str | None:
    axis = _attribute(node, "gather_axis" if node.op_type == "GatherBlockQuantized" else "axis", 0)
    if not data[0] and axis == 0:
        return None  # rows of a table
    if node.op_type == "Gather" and not data[1] and axis == -1:
        return None  # columns of every token
    return f"{node.op_type} {node.name} picks along axis {axis} of activations"


def _why_not_reshape(node: ir.Node) -> str | None:
    shape = node.inputs[1]
    dims = constant_ints(shape)
    if dims is None and shape is not None:
        producer = shape.producer()
        if producer is not None and producer.op_type == "Concat" and producer.inputs:
            dims = constant_ints(producer.inputs[-1])
    # A last axis of fixed size divides the width (one token alone must be reshapeable), so no group of
    # the last axis ever spans two tokens.
    if dims and (dims[-1] > 0 or dims == [0, 0, -1]):
        return None
    return f"Reshape {node.name} may put several tokens into one row"
