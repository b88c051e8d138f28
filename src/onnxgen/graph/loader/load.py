"""The way from a source to a model that the rest of the runtime can rely on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import NameFixPass

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.ir.types import DECLARED_TYPE, ValueType
from onnxgen.graph.loader.constants import constants_to_initializers
from onnxgen.graph.loader.data_files import DataFiles
from onnxgen.graph.loader.declared_types import clean_types
from onnxgen.graph.loader.defects import Defects
from onnxgen.graph.loader.functions import functions_to_inline
from onnxgen.graph.loader.inline import inline_functions
from onnxgen.graph.loader.legality import check_graph
from onnxgen.graph.loader.node_opset import notes_to_versions
from onnxgen.graph.loader.old_formats import modernize
from onnxgen.graph.loader.operators import check_operators
from onnxgen.graph.loader.source import ModelSource, Source, read_source
from onnxgen.graph.loader.take_tensors import Tensors, put_back, take_tensors
from onnxgen.graph.loader.text import check_text
from onnxgen.graph.loader.versions import check_versions
from onnxgen.graph.loader.walk import proto_nodes


@dataclass(frozen=True, slots=True)
class LoadedGraph:
    """A legal model.

    Attributes:
        model: Functions are inlined, ``Constant`` nodes are initializers, nodes are in an order in which they can
            run, the standard's domain is written ``""``, and tensors in files are mapped, not read.
        folder: Where the model's files are; None for models that did not come from a file.
        origin: What messages call the model: its path, or a description.
    """

    model: ir.Model
    folder: Path | None
    origin: str


def _keep_none(domain: str, name: str) -> bool:
    return False


def load_graph(
    source: ModelSource,
    *,
    keep_function: Callable[[str, str], bool] = _keep_none,
    beside: Path | None = None,
) -> LoadedGraph:
    """Load a model from a path, bytes, `onnx.ModelProto` or `onnx_ir.Model`; models in memory are left as they are.

    Args:
        source: The model.
        keep_function: Says of the model's functions, by domain and name, which stay operators because somebody
            runs them as such; the others are replaced by their nodes.
        beside: The path that a model in bytes would have: its external data lies beside it.

    Raises:
        ModelNotFoundError: There is no file at that path.
        ModelFileError: A file of its data is missing, or one is cut short, of another kind, outside of the model's folder, or of a version
            that the installed onnx does not know.
        InvalidGraphError: The model breaks rules of the format; the message has every defect found.
        TypeError: ``source`` is nothing that a model can be loaded from.
    """
    found = read_source(source, beside=beside)
    try:
        return LoadedGraph(_legal_model(found, keep_function), found.folder, found.origin)
    except RecursionError as cause:
        raise InvalidGraphError(f"{found.origin} has graphs nested too deeply") from cause


def _legal_model(source: Source, keep_function: Callable[[str, str], bool]) -> ir.Model:
    proto, defects = source.proto, Defects(source.origin)
    check_text(proto, defects)
    defects.raise_if_any()
    check_versions(proto, source.origin, defects)
    defects.raise_if_any()
    functions = functions_to_inline(proto, keep_function, defects)
    check_graph(proto.graph, defects)
    modernize(proto)
    maps = clean_types(proto, defects)
    tensors = take_tensors(proto, DataFiles(source.folder, source.origin), source.lent, defects)
    defects.raise_if_any()
    inline_functions(proto, functions)
    check_operators(proto, defects)
    defects.raise_if_any()
    return _convert(proto, tensors, maps, source.origin)


def _convert(
    proto: onnx.ModelProto, tensors: Tensors, maps: Mapping[str, ValueType], origin: str
) -> ir.Model:
    proto.ClearField("configuration")  # how to spread a model over devices is not for one process
    for node in proto_nodes(proto):
        node.ClearField("device_configurations")
    try:
        model = ir.from_proto(proto)
    except (ir.serde.SerdeError, ValueError, TypeError, KeyError, NotImplementedError) as cause:
        raise InvalidGraphError(f"{origin} cannot be read: {_first_cause(cause)}") from cause
    for value in model.graph.inputs:
        _declare(value, maps)
    for node in model.graph.all_nodes():
        notes_to_versions(node)
        for value in node.outputs:
            _declare(value, maps)
    put_back(model, tensors)
    constants_to_initializers(model)
    NameFixPass()(model)
    model.graph.sort()
    return model


def _declare(value: ir.Value, maps: Mapping[str, ValueType]) -> None:
    if value.name is not None and value.name in maps:
        value.meta[DECLARED_TYPE] = maps[value.name]


def _first_cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error) or type(error).__name__
