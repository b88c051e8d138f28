"""Let embeddings be given in place of those that token ids look up.

    before                       after
    ids ── Gather ── scale       ids ── Gather ── scale ── ScatterND(embed_cells, embeds)
                       │                                       │
                     layers                                  layers

With no cells, which is what most calls have, the scatter writes nothing, and ONNX Runtime does it in place.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxgen.backends.ort.graph_edit.names import EMBED_CELLS, EMBEDDINGS, EMBEDS
from onnxgen.backends.ort.graph_edit.surgery import add_input, constant_values

_LOOKUPS = frozenset({"Gather", "GatherBlockQuantized"})
_SCALES = frozenset({"Cast", "Mul"})
_BITS = 4
"""Of a quantized table that does not say."""


def open_embeddings(graph: ir.Graph, *, input_ids: str, made_before: str | None = None) -> int | None:
    """Add the inputs ``EMBEDS`` and ``EMBED_CELLS``; returns the width of an embedding.

    None, and nothing is added, where ids are not looked up in exactly one table.

    Args:
        graph: The decoder.
        input_ids: Name of its input.
        made_before: Name of the value that a graph in front of the decoder makes of ids: whatever it does, embeddings are
            given in place of that. None: there is no such graph.
    """
    if made_before is not None:
        return _open_joined(graph, made_before)
    ids = next(value for value in graph.inputs if value.name == input_ids)
    constants = constant_values(graph)
    lookups = [
        node
        for value in (ids, *(n.outputs[0] for n in ids.consumers() if n.op_type == "Cast"))
        for node, at in value.uses()
        if node.op_type in _LOOKUPS and at == 1 and node.inputs[0] in constants
    ]
    width = _width(lookups[0]) if len(lookups) == 1 else None
    if width is None:
        return None
    value = _scaled(lookups[0].outputs[0], constants)
    if value.is_graph_output():  # what is looked up are logits
        return None
    dtype = _dtype(lookups[0]) if value is lookups[0].outputs[0] else _cast_dtype(value) or _dtype(lookups[0])
    _scatter(graph, value, width, dtype)
    return width


def _open_joined(graph: ir.Graph, name: str) -> int | None:
    value = next((v for node in graph for v in node.outputs if v.name == name), None)
    width = None if value is None or value.shape is None or len(value.shape) != 3 else value.shape[2]
    if value is None or not isinstance(width, int) or value in constant_values(graph):
        return None
    _scatter(graph, value, width, value.dtype or ir.DataType.FLOAT)
    return width


def _scatter(graph: ir.Graph, value: ir.Value, width: int, dtype: ir.DataType) -> None:
    """Let rows of a value be given."""
    embeds = add_input(graph, EMBEDS, ir.DataType.FLOAT, ["given", width])
    cells = add_input(graph, EMBED_CELLS, ir.DataType.INT64, ["given", 2])
    producer, uses = value.producer(), list(value.uses())
    assert producer is not None
    value.name, value.type = EMBEDDINGS, ir.TensorType(dtype)
    added: list[ir.Node] = []
    if dtype != ir.DataType.FLOAT:
        added.append(ir.node("Cast", [embeds], {"to": dtype.value}, name=f"{EMBEDS}.cast"))
        embeds = added[0].outputs[0]
        embeds.name, embeds.type = f"{EMBEDS}.cast", ir.TensorType(dtype)
    scatter = ir.Node("", "ScatterND", [value, cells, embeds], num_outputs=1, name=f"{EMBEDS}.given")
    scatter.outputs[0].name, scatter.outputs[0].type = f"{EMBEDS}.given", value.type
    graph.insert_after(producer, [*added, scatter])
    for user, index in uses:
        user.replace_input_with(index, scatter.outputs[0])


def keep_embeddings_only(model: ir.Model) -> None:
    """Leave only the way from ids to `EMBEDDINGS`, which becomes the output, in float32."""
    from onnxgen.backends.ort.graph_edit.surgery import drop_dead_nodes, drop_unused_inputs

    graph = model.graph
    value = next(v for node in graph for v in node.outputs if v.name == EMBEDDINGS)
    cast = ir.node("Cast", [value], {"to": ir.DataType.FLOAT.value}, name=f"{EMBEDDINGS}.output")
    cast.outputs[0].name, cast.outputs[0].type = f"{EMBEDDINGS}.output", ir.TensorType(ir.DataType.FLOAT)
    graph.append(cast)
    graph.outputs[:] = [cast.outputs[0]]
    drop_dead_nodes(model)
    drop_unused_inputs(graph)


def _scaled(value: ir.Value, constants: set[ir.Value]) -> ir.Value:
    """The value behind what scales all embeddings alike."""
    while True:
        users = value.consumers()
        if len(users) != 1 or users[0].op_type not in _SCALES or value.is_graph_output():
            return value
        others = [v for v in users[0].inputs if v is not value]
        if not all(v in constants and _is_number(v) for v in others):
            return value
        value = users[0].outputs[0]


def _is_number(value: ir.Value | None) -> bool:
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    return tensor is not None and tensor.size == 1


def _width(lookup: ir.Node) -> int | None:
    table = lookup.inputs[0]
    dims = None if table is None or table.shape is None else list(table.shape)
    if dims is None or len(dims) != 2 or not isinstance(dims[1], int):
        return None
    if lookup.op_type == "Gather":
        return dims[1] if _attribute(lookup, "axis", 0) == 0 else None
    if _attribute(lookup, "gather_axis", 0) != 0:
        return None
    packed = table is not None and table.dtype == ir.DataType.UINT8
    return dims[1] * 8 // _attribute(lookup, "bits", _BITS) if packed else dims[1]


def _dtype(lookup: ir.Node) -> ir.DataType:
    source = lookup.inputs[0 if lookup.op_type == "Gather" else 2]
    assert source is not None
    return source.dtype or ir.DataType.FLOAT


def _cast_dtype(value: ir.Value) -> ir.DataType | None:
    """The type that the last cast on the way to a value gives; None where there is none."""
    node = value.producer()
    while node is not None and node.op_type in _SCALES:
        if node.op_type == "Cast":
            return ir.DataType(node.attributes["to"].as_int())
        above = next((v for v in node.inputs if v is not None and v.producer() is not None), None)
        node = None if above is None else above.producer()
    return None


def _attribute(node: ir.Node, name: str, default: int) -> int:
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_int()
