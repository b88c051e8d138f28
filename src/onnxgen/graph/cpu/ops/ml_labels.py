"""Labels and maps of ``ai.onnx.ml``: LabelEncoder, CategoryMapper, OneHotEncoder, ZipMap, CastMap, DictVectorizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isnan
from typing import Any

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.registry import ML, KernelTable
from onnxgen.graph.cpu.scores import class_labels
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.types import numpy_dtype

TABLE = KernelTable()

_KINDS: dict[str, tuple[type, Any, str]] = {
    "strings": (object, "_Unused", "default_string"),
    "int64s": (np.int64, -1, "default_int64"),
    "floats": (np.float32, -0.0, "default_float"),
}
"""By the end of an attribute's name: element type, default, and the attribute that replaces that."""


def _mapping(table: Mapping[Any, Any], default: np.ndarray) -> Kernel:
    """Elements looked up one by one; NaN is found where the table has it as ``_NAN``."""

    def run(x: np.ndarray) -> np.ndarray:
        missing = default.reshape(-1)[0]
        found = [table.get(_named(item), missing) for item in x.reshape(-1).tolist()]
        y = np.empty(x.size, default.dtype)
        y[:] = found
        return y.reshape(x.shape)

    return Kernel(run)


_NAN = "nan"
"""What NaN, which equals nothing, is called in a table of numbers."""


def _named(item: Any) -> Any:
    return _NAN if isinstance(item, float) and isnan(item) else item


@TABLE.operator("LabelEncoder", 1, domain=ML)
def label_encoder_1(node: NodeSpec) -> Kernel:
    """Strings to their places in a list, of equal ones the last, or places to the strings."""
    classes = node.attr("classes_strings", ())
    if node.input_dtype(0).name == "STRING":
        places = {name: place for place, name in enumerate(classes)}
        return _mapping(places, np.array(node.attr("default_int64", -1), np.int64))
    return _mapping(dict(enumerate(classes)), np.array(node.attr("default_string", "_Unused"), object))


@TABLE.operator("LabelEncoder", 2, 4, domain=ML)
def label_encoder(node: NodeSpec) -> Kernel:
    """Keys to values, each a list of one of three types or (version 4) a tensor.

    As in ONNX Runtime, of equal keys the first counts, and NaN is a key in version 4 only; the standard's text has the
    last, and NaN in version 2 too.
    """
    keys, _ = _side(node, "keys")
    values, kind = _side(node, "values")
    if kind is None:
        default = node.attr("default_tensor", np.array([_zero(values.dtype)], values.dtype))
    else:
        dtype, usual, name = _KINDS[kind]
        default = node.attr("default_tensor", np.array(node.attr(name, usual), dtype))
    if len(keys) != len(values):
        raise InvalidGraphError(f"{node}: {len(keys)} keys and {len(values)} values; give as many of each")
    names = [_named(key) for key in keys.tolist()]
    table = dict(zip(reversed(names), reversed(values.tolist()), strict=True))
    if node.since_version < 4 and keys.dtype.kind == "f":
        table.pop(_NAN, None)
    return _mapping(table, default.astype(values.dtype))


def _zero(dtype: np.dtype) -> Any:
    """What version 4 gives for unknown keys when no default is said: by type, as for lists."""
    return "_Unused" if dtype == object else -0.0 if dtype.kind == "f" else -1


def _side(node: NodeSpec, side: str) -> tuple[np.ndarray, str | None]:
    """The keys or values and the kind of list that they are; None for a tensor."""
    tensor = node.attr(f"{side}_tensor")
    if tensor is not None:
        return tensor.reshape(-1), None
    for kind, (dtype, _, _) in _KINDS.items():
        if f"{side}_{kind}" in node.attributes:
            return np.array(node.attr(f"{side}_{kind}"), dtype), kind
    raise InvalidGraphError(f"{node}: has no {side}")


@TABLE.operator("CategoryMapper", 1, domain=ML)
def category_mapper(node: NodeSpec) -> Kernel:
    """Strings to integers or back, by the type of the input; of equal ones the last counts."""
    ints, strings = node.attr("cats_int64s", ()), node.attr("cats_strings", ())
    if len(ints) != len(strings):
        raise InvalidGraphError(
            f"{node}: {len(ints)} integers for {len(strings)} strings; give as many of each"
        )
    if node.input_dtype(0).name == "STRING":
        return _mapping(
            dict(zip(strings, ints, strict=True)), np.array(node.attr("default_int64", -1), np.int64)
        )
    return _mapping(
        dict(zip(ints, strings, strict=True)), np.array(node.attr("default_string", "_Unused"), object)
    )


@TABLE.operator("OneHotEncoder", 1, domain=ML)
def one_hot_encoder(node: NodeSpec) -> Kernel:
    """A new last axis with a one at the category's place, of equal categories the last."""
    strings, ints = node.attr("cats_strings", ()), node.attr("cats_int64s", ())
    width = len(strings or ints)
    place = {category: column for column, category in enumerate(strings or ints)}

    def run(x: np.ndarray) -> np.ndarray:
        items = (x if strings else x.astype(np.int64)).reshape(-1).tolist()
        found = [place.get(item, -1) for item in items]
        if -1 in found and not node.attr("zeros", 1):
            raise KernelError(
                f"{node}: {items[found.index(-1)]!r} is not one of the categories, and zeros is 0"
            )
        y = np.zeros((len(items), width), np.float32)
        rows = [row for row, column in enumerate(found) if column >= 0]
        y[rows, [found[row] for row in rows]] = 1
        return y.reshape(*x.shape, width)

    return Kernel(run)


@TABLE.operator("ZipMap", 1, domain=ML)
def zip_map(node: NodeSpec) -> Kernel:
    """A list with a dictionary of scores by label for each row; labels ascend, of equal ones the last counts."""
    labels = class_labels(node).tolist()
    columns = sorted(range(len(labels)), key=labels.__getitem__)
    ascending = [labels[column] for column in columns]

    def run(x: np.ndarray) -> list[dict[Any, float]]:
        if x.ndim not in (1, 2) or x.shape[-1] != len(labels):
            raise KernelError(f"{node}: {len(labels)} labels do not fit an input of shape {x.shape}")
        rows = x.reshape(-1, len(labels))[:, columns].tolist()
        return [dict(zip(ascending, row, strict=True)) for row in rows]

    return Kernel(run)


@TABLE.operator("CastMap", 1, domain=ML)
def cast_map(node: NodeSpec) -> Kernel:
    """The values of a map by ascending key, or each at the place that its key names; texts are ONNX Runtime's."""
    casts: dict[str, tuple[type, Callable[[Any], Any], Any]] = {
        "TO_FLOAT": (np.float32, float, 0),
        "TO_INT64": (np.int64, _whole, 0),
        "TO_STRING": (object, lambda value: value if isinstance(value, str) else f"{value:f}", "0.f"),
    }
    target, form = node.attr("cast_to", "TO_FLOAT"), node.attr("map_form", "DENSE")
    if target not in casts or form not in ("DENSE", "SPARSE"):
        raise InvalidGraphError(
            f"{node}: cast_to {target!r} or map_form {form!r} is not one of the standard's"
        )
    dtype, cast, absent = casts[target]

    def run(x: Mapping[int, Any]) -> np.ndarray:
        if form == "DENSE":
            y = np.empty((1, len(x)), dtype)
            y[0] = [cast(x[key]) for key in sorted(x)]
            return y
        size = node.attr("max_map", 1)
        if x and not 0 <= min(x) <= max(x) < size:
            raise KernelError(f"{node}: keys {min(x)} to {max(x)} do not fit a sparse map of {size}")
        y = np.full((1, size), absent, dtype)
        for key, value in x.items():
            y[0, key] = cast(value)
        return y

    return Kernel(run)


def _whole(value: str | float) -> int:
    try:
        return int(value)
    except ValueError:  # "1.5"
        return int(float(value))


@TABLE.operator("DictVectorizer", 1, domain=ML)
def dict_vectorizer(node: NodeSpec) -> Kernel:
    """The values of a map in the order of a vocabulary, 0 (or "") for keys that it lacks."""
    vocabulary = node.attr("string_vocabulary") or node.attr("int64_vocabulary") or ()
    declared = node.output_dtype(0)

    def run(x: Mapping[Any, Any]) -> np.ndarray:
        if declared.name != "UNDEFINED":
            dtype = numpy_dtype(declared)
        else:
            example = next(iter(x.values()), 0.0)
            dtype = np.dtype(
                object if isinstance(example, str) else np.int64 if isinstance(example, int) else np.float32
            )
        y = np.full((1, len(vocabulary)), "" if dtype == object else 0, dtype)
        y[0] = [x.get(key, y[0, place]) for place, key in enumerate(vocabulary)]
        return y

    return Kernel(run)
