"""`IOBinding`: inputs and outputs of a run that stay bound from run to run."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from onnxgen.errors import ConfigError, FeedError
from onnxgen.graph.ir.types import ValueType
from onnxgen.graph.session.feeds import Feeds
from onnxgen.graph.session.ort_value import OrtValue, check_host, element_dtype
from onnxgen.graph.session.run_values import fresh


class IOBinding:
    """Buffers for a session's runs; made by `InferenceSession.io_binding`. For one thread at a time.

    Outputs bound to memory are written there; others are allocated by each run. Binding a name again replaces what was
    bound, and `get_outputs` keeps the order in which names were first bound.
    """

    def __init__(self, feeds: Feeds, output_types: Mapping[str, ValueType]) -> None:
        self._feeds = feeds
        self._output_types = output_types
        self._inputs: dict[str, Any] = {}
        self._buffers: dict[str, np.ndarray | None] = {}
        self._results: dict[str, OrtValue] = {}

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Feed an array, and whatever is written into its memory later. Values that need conversion are copied now.

        Raises:
            FeedError: the model has no such input, or the value does not fit it.
        """
        self._inputs[name] = self._feeds.port(name).take(arr_on_cpu)

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Feed memory at an address, C-contiguous; it must stay valid while it is bound.

        Args:
            name: The input.
            device_type: ``cpu``.
            device_id: 0.
            element_type: A NumPy or ml_dtypes type, or a value of ``TensorProto.DataType``.
            shape: Its sizes.
            buffer_ptr: Address of the first element.
        """
        check_host(device_type, device_id)
        self.bind_cpu_input(name, _array_at(buffer_ptr, shape, element_type))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Feed a value, and whatever is written into it later."""
        self.bind_cpu_input(name, ortvalue)

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Ask for an output; with ``buffer_ptr``, written to memory at that address.

        Raises:
            FeedError: the model has no such output.
            ConfigError: an address without element type and shape.
        """
        check_host(device_type, device_id)
        if buffer_ptr is None:
            self._bind(name, None)
            return
        if element_type is None or shape is None:
            raise ConfigError(f"output {name!r} at an address needs element_type and shape as well")
        self._bind(name, _array_at(buffer_ptr, shape, element_type))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Have an output written into a tensor."""
        self._bind(name, ortvalue.numpy())

    def get_outputs(self) -> list[OrtValue]:
        """What the last run computed, in the order in which names were first bound."""
        return [self._results[name] for name in self._buffers if name in self._results]

    def get_outputs_as_ortvaluevector(self) -> list[OrtValue]:
        """`get_outputs`."""
        return self.get_outputs()

    def copy_outputs_to_cpu(self) -> list[Any]:
        """What `get_outputs` has, as arrays (lists, dictionaries) of their own memory."""
        return [fresh(value.value) for value in self.get_outputs()]

    def clear_binding_inputs(self) -> None:
        """Forget every input."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget every output and what was computed for it."""
        self._buffers.clear()
        self._results.clear()

    def synchronize_inputs(self) -> None:
        """Returns at once: inputs are on the host."""

    def synchronize_outputs(self) -> None:
        """Returns at once: a run is over when it returns."""

    def feeds(self) -> dict[str, Any]:
        """Checked values by input, complete.

        Raises:
            FeedError: an input is not bound.
        """
        return self._feeds.prepare(self._inputs)

    def wanted(self) -> tuple[list[str], dict[str, np.ndarray]]:
        """Names of the outputs, and the arrays that some of them are written into.

        Raises:
            FeedError: none is bound.
        """
        if not self._buffers:
            raise FeedError("no output is bound; call bind_output for at least one")
        return list(self._buffers), {
            name: array for name, array in self._buffers.items() if array is not None
        }

    def keep(self, names: Sequence[str], values: Sequence[Any]) -> None:
        """Take a run's results."""
        self._results = {
            name: OrtValue(value, self._output_types[name]) for name, value in zip(names, values, strict=True)
        }

    def __reduce__(self) -> NoReturn:
        raise TypeError("a binding cannot be pickled or copied: a copy would not be bound to the same memory")

    def _bind(self, name: str, array: np.ndarray | None) -> None:
        if name not in self._output_types:
            known = ", ".join(map(repr, self._output_types))
            raise FeedError(f"the model has no output {name!r}; its outputs are {known}")
        if array is not None and not array.flags.writeable:
            raise FeedError(f"the memory for output {name!r} is read-only")
        self._buffers[name] = array


def _array_at(address: int, shape: Sequence[int], element_type: Any) -> np.ndarray:
    dtype = element_dtype(element_type)
    if dtype == object:
        raise FeedError("strings have no memory that an address could name; feed an array")
    sizes = tuple(int(size) for size in shape)
    num_bytes = int(np.prod(sizes, dtype=np.int64)) * dtype.itemsize
    if num_bytes == 0:
        return np.empty(sizes, dtype)
    memory = (ctypes.c_uint8 * num_bytes).from_address(address)
    return np.asarray(memory).view(dtype).reshape(sizes)
