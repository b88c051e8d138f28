"""Put the graph that makes embeddings of ids in front of the decoder that reads them, so that both are one decoder.

input_ids ──► embedding ──► inputs_embeds ──► decoder ──► logits
                 ▲
            no features     of images or sounds: there are none among a text's tokens
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from onnxgen.errors import CapabilityError, ModelFileError

_PREFIX = "embedding/"


def join_embedding(
    decoder: ir.Model, embedding: ir.Model, *, ids: tuple[str, str], joined: Mapping[str, str]
) -> dict[str, str]:
    """Let a decoder's inputs be outputs of an embedding graph; its values get names of their own.

    Args:
        decoder: Changed in place.
        embedding: Taken apart.
        ids: Name of the ids in the embedding graph, and in the decoder.
        joined: Names of outputs of the embedding graph, and the decoder's inputs that they are.

    Returns:
        By the name that an input of the decoder had, the name of the value in its place.

    Raises:
        ModelFileError: An input or output is missing.
        CapabilityError: The two cannot be one graph.
    """
    _check_versions(decoder, embedding)
    source, target = embedding.graph, decoder.graph
    made = {str(value.name): value for value in source.outputs}
    missing = [name for name in joined if name not in made]
    if missing or ids[0] not in {value.name for value in source.inputs}:
        raise ModelFileError(
            f"the embedding graph has inputs {[v.name for v in source.inputs]} and outputs {list(made)}; it should have "
            f"{ids[0]!r} and {list(joined)}"
        )
    _rename(source)
    own_ids = next((value for value in target.inputs if value.name == ids[1]), None)
    for value in list(source.inputs):
        source.inputs.remove(value)
        if value.name != _PREFIX + ids[0]:
            target.register_initializer(_nothing(value))
        elif own_ids is None:
            value.name = ids[1]
            target.inputs.insert(0, value)
        else:
            value.replace_all_uses_with(_as_type(target, own_ids, value.dtype))
    source.outputs.clear()
    for value in list(source.initializers.values()):
        source.initializers.pop(str(value.name))
        target.register_initializer(value)
    nodes = list(source)
    source.remove(nodes)
    first = next(iter(target), None)
    if first is None:
        target.extend(nodes)
    else:
        target.insert_before(first, nodes)
    names: dict[str, str] = {}
    for name, read in joined.items():
        given = next((value for value in target.inputs if value.name == read), None)
        if given is None:
            raise ModelFileError(f"the decoder has no input {read!r} for what its embedding graph makes")
        target.inputs.remove(given)
        value = _as_type(target, made[name], given.dtype)
        given.replace_all_uses_with(value)
        value.shape = given.shape if value.shape is None else value.shape
        names[read] = str(value.name)
    decoder.functions.update(embedding.functions)
    target.sort()
    return names


def _check_versions(decoder: ir.Model, embedding: ir.Model) -> None:
    for domain, version in embedding.opset_imports.items():
        other = decoder.opset_imports.setdefault(domain, version)
        if other != version:
            raise CapabilityError(
                f"the embedding graph is of version {version} of the operators {domain or 'ai.onnx'!r} and the decoder of "
                f"{other}; export both with one version"
            )


def _rename(graph: ir.Graph) -> None:
    for value in graph.inputs:
        value.name = f"{_PREFIX}{value.name}"
    for value in list(graph.initializers.values()):
        if not value.is_graph_input():
            value.name = f"{_PREFIX}{value.name}"
    for node in graph.all_nodes():
        node.name = f"{_PREFIX}{node.name or node.op_type}"
        for value in node.outputs:
            value.name = f"{_PREFIX}{value.name}" if value.name else value.name


def _nothing(value: ir.Value) -> ir.Value:
    """An input without rows, as an initializer."""
    if value.dtype is None or value.shape is None:
        raise ModelFileError(f"input {value.name!r} of the embedding graph has no type or shape")
    dims = [dim if isinstance(dim, int) else 0 for dim in value.shape]
    if 0 not in dims:
        raise CapabilityError(
            f"input {value.name!r} of the embedding graph cannot be empty: it is {list(value.shape)}"
        )
    value.const_value = ir.tensor(np.zeros(dims, value.dtype.numpy()), name=value.name)
    value.shape = ir.Shape(dims)
    return value


def _as_type(graph: ir.Graph, value: ir.Value, dtype: ir.DataType | None) -> ir.Value:
    if dtype is None or value.dtype is None or value.dtype == dtype:
        return value
    cast = ir.node("Cast", [value], {"to": dtype.value}, name=f"{_PREFIX}{value.name}/cast")
    cast.outputs[0].name, cast.outputs[0].shape = f"{_PREFIX}{value.name}/cast", value.shape
    cast.outputs[0].type = ir.TensorType(dtype)
    producer = value.producer()
    if producer is None:
        first = next(iter(graph))
        graph.insert_before(first, cast)
    else:
        graph.insert_after(producer, cast)
    return cast.outputs[0]
