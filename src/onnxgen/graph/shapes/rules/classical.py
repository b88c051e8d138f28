"""Classical machine learning: the domain ``ai.onnx.ml``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx_ir as ir

from onnxgen.graph.ir.types import DECLARED_TYPE, MapType, SequenceType, TensorType
from onnxgen.graph.shapes import algebra
from onnxgen.graph.shapes.algebra import Size
from onnxgen.graph.shapes.context import Context
from onnxgen.graph.shapes.rules.tools import (
    Rule,
    input_at,
    integer,
    integers,
    required,
    set_like,
    set_output,
    sizes,
    text,
)

_ML = "ai.onnx.ml"
_CAST_MAP = {"TO_FLOAT": ir.DataType.FLOAT, "TO_INT64": ir.DataType.INT64, "TO_STRING": ir.DataType.STRING}


def _rows(context: Context, node: ir.Node) -> Size:
    """Samples: the first dimension of a matrix; a vector is one sample."""
    shape = sizes(required(node, 0))
    if shape is None:
        return context.new_symbolic_dim()
    return 1 if len(shape) < 2 else shape[0]


def _float_like_first(context: Context, node: ir.Node) -> None:
    set_output(context, node, 0, sizes(required(node, 0)), ir.DataType.FLOAT)


def _regressor(targets: Callable[[ir.Node], int]) -> Rule:
    def rule(context: Context, node: ir.Node) -> None:
        set_output(context, node, 0, [_rows(context, node), targets(node)], ir.DataType.FLOAT)

    return rule


def _classifier(*label_attributes: str) -> Rule:
    """Labels and scores; labels are strings if the node has string labels."""

    def rule(context: Context, node: ir.Node) -> None:
        rows = _rows(context, node)
        names = [name for name in label_attributes if _length(node, name)]
        is_text = any("string" in name for name in names)
        set_output(context, node, 0, [rows], ir.DataType.STRING if is_text else ir.DataType.INT64)
        count = max((_length(node, name) for name in names), default=0)
        scores: Size = count if count > 1 else context.new_symbolic_dim()
        set_output(context, node, 1, [rows, scores], ir.DataType.FLOAT)

    return rule


def _length(node: ir.Node, name: str) -> int:
    attribute = node.attributes.get(name)
    return 0 if attribute is None else len(attribute.value)


def _one_hot(context: Context, node: ir.Node) -> None:
    shape = sizes(required(node, 0))
    count = _length(node, "cats_int64s") or _length(node, "cats_strings")
    set_output(context, node, 0, None if shape is None else [*shape, count], ir.DataType.FLOAT)


def _features(context: Context, node: ir.Node) -> None:
    widths = integers(node, "inputdimensions")
    width = context.new_symbolic_dim() if widths is None else algebra.total(widths)
    set_output(context, node, 0, [_rows(context, node), width], ir.DataType.FLOAT)


def _categories(context: Context, node: ir.Node) -> None:
    data = required(node, 0)
    dtype = ir.DataType.INT64 if data.dtype is ir.DataType.STRING else ir.DataType.STRING
    set_output(context, node, 0, sizes(data), dtype)


def _cast_map(context: Context, node: ir.Node) -> None:
    dtype = _CAST_MAP.get(text(node, "cast_to", "TO_FLOAT"))
    set_output(context, node, 0, [1, context.new_symbolic_dim()], dtype)


def _extracted(context: Context, node: ir.Node) -> None:
    """As many features as there are indices, whatever their shape; a vector becomes one row."""
    data, indices = required(node, 0), required(node, 1)
    shape, places = sizes(data), sizes(indices)
    count = context.new_symbolic_dim() if places is None else algebra.product(places)
    leading = None if shape is None else shape[:-1] or [1]
    set_output(context, node, 0, None if leading is None else [*leading, count], data.dtype)


def _support_vectors(context: Context, node: ir.Node) -> None:
    """Without probabilities, the scores of more than two classes are those of the pairs."""
    _classifier(*_LABELS)(context, node)
    counts = integers(node, "vectors_per_class") or []
    if sum(counts) and len(counts) > 2 and not _length(node, "prob_a"):
        pairs = len(counts) * (len(counts) - 1) // 2
        set_output(context, node, 1, [_rows(context, node), pairs], ir.DataType.FLOAT)


def _zip_map(context: Context, node: ir.Node) -> None:
    key = ir.DataType.STRING if _length(node, "classlabels_strings") else ir.DataType.INT64
    rows = SequenceType(MapType(key, TensorType(ir.DataType.FLOAT)))
    node.outputs[0].meta.setdefault(DECLARED_TYPE, rows)


def _dict_vectorizer(context: Context, node: ir.Node) -> None:
    """One row, of the type of the map's values."""
    kind = required(node, 0).meta.get(DECLARED_TYPE)
    value = kind.value if isinstance(kind, MapType) else None
    width = _length(node, "string_vocabulary") or _length(node, "int64_vocabulary")
    set_output(context, node, 0, [1, width], value.dtype if isinstance(value, TensorType) else None)


def _like_first(context: Context, node: ir.Node) -> None:
    set_like(context, node, 0, input_at(node, 0))


_LABELS = ("classlabels_strings", "classlabels_int64s", "classlabels_ints")

RULES: Mapping[tuple[str, str], Rule] = {
    (_ML, "Scaler"): _float_like_first,
    (_ML, "Normalizer"): _float_like_first,
    (_ML, "Imputer"): _like_first,
    (_ML, "LinearRegressor"): _regressor(lambda node: integer(node, "targets", 1)),
    (_ML, "SVMRegressor"): _regressor(lambda node: 1),
    (_ML, "TreeEnsembleRegressor"): _regressor(lambda node: integer(node, "n_targets", 1)),
    **{(_ML, name): _classifier(*_LABELS) for name in ("LinearClassifier", "TreeEnsembleClassifier")},
    (_ML, "SVMClassifier"): _support_vectors,
    (_ML, "ArrayFeatureExtractor"): _extracted,
    (_ML, "OneHotEncoder"): _one_hot,
    (_ML, "FeatureVectorizer"): _features,
    (_ML, "CategoryMapper"): _categories,
    (_ML, "CastMap"): _cast_map,
    (_ML, "ZipMap"): _zip_map,
    (_ML, "DictVectorizer"): _dict_vectorizer,
}
