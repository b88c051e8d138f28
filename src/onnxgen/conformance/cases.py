"""Test cases of the installed onnx, with their data as the runtime's values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.backend.test.loader import load_model_tests

from onnxgen.graph.ir.attributes import tensor_array

GROUPS = ("node", "simple", "pytorch-converted", "pytorch-operator")
"""Groups whose models and data come with onnx itself; others would be downloaded."""


@dataclass(frozen=True, slots=True)
class Case:
    """One model with inputs and the outputs they must give.

    Attributes:
        name: As onnx has it, ``test_add_bcast``.
        group: One of `GROUPS`.
        model: The model.
        data_sets: Pairs (inputs, outputs) in the order of the model's inputs and outputs.
        rtol: Relative tolerance.
        atol: Absolute tolerance.
    """

    name: str
    group: str
    model: onnx.ModelProto
    data_sets: tuple[tuple[tuple[Any, ...], tuple[Any, ...]], ...]
    rtol: float
    atol: float

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names that the inputs of a data set are for: initializers among the graph's inputs are skipped, if they can be."""
        names = tuple(value.name for value in self.model.graph.input)
        weights = {tensor.name for tensor in self.model.graph.initializer}
        fed = tuple(name for name in names if name not in weights)
        return fed if len(fed) == len(self.data_sets[0][0]) else names


def load_cases(group: str) -> Iterator[Case]:
    """Every case of a group, in onnx's order.

    Raises:
        ValueError: when onnx brings no such group.
    """
    if group not in GROUPS:
        raise ValueError(f"no group {group!r}; onnx brings {', '.join(GROUPS)}")
    with np.errstate(all="ignore"):  # onnx computes its expectations while it loads
        tests = load_model_tests(kind=group)
    for test in tests:
        folder = Path(test.model_dir or "")
        model = test.model or onnx.load(folder / "model.onnx")
        if test.data_sets is None:
            sets = [_read_data_set(folder, model) for folder in sorted(folder.glob("test_data_set_*"))]
        else:
            sets = [(_values(inputs), _values(outputs)) for inputs, outputs in test.data_sets]
        yield Case(test.name, group, model, tuple(sets), test.rtol, test.atol)


def _values(items: Any) -> tuple[Any, ...]:
    return tuple(_value(item) for item in items)


def _read_data_set(folder: Path, model: onnx.ModelProto) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    inputs, outputs = model.graph.input, model.graph.output
    return _read_values(folder, "input", inputs), _read_values(folder, "output", outputs)


def _read_values(folder: Path, prefix: str, described: Any) -> tuple[Any, ...]:
    count = len(list(folder.glob(f"{prefix}_*.pb")))
    protos = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}
    values: list[Any] = []
    for index in range(count):
        kind = described[index].type.WhichOneof("value")
        proto = protos.get(kind, onnx.TensorProto)()
        proto.ParseFromString((folder / f"{prefix}_{index}.pb").read_bytes())
        values.append(_value(proto))
    return tuple(values)


def _value(item: Any) -> Any:
    """A test's datum as a value of the runtime: array, list, dictionary or None."""
    if isinstance(item, onnx.TensorProto):
        return tensor_array(ir.from_proto(item))
    if isinstance(item, onnx.SequenceProto):
        return [_value(element) for element in (*item.tensor_values, *item.sequence_values)]
    if isinstance(item, onnx.OptionalProto):
        which = {1: item.tensor_value, 3: item.sequence_value}.get(item.elem_type)
        return None if which is None else _value(which)
    if isinstance(item, list):
        return [_value(element) for element in item]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(item, np.ndarray | np.generic):
        array = np.asarray(item)
        return array.astype(object) if array.dtype.kind in "US" else array
    return item
