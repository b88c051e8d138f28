"""One ONNX Runtime session, with its errors turned into ours."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

import numpy.typing as npt
import onnxruntime as ort

from onnxgen.backends.base import ProviderSpec
from onnxgen.backends.ort.options import SessionOptions
from onnxgen.errors import BackendError


class OrtSession:
    """A loaded graph.

    Args:
        content: The serialized graph.
        path: The model's file, for messages.
        data_folder: The folder that locations of external data are relative to.
        options: Session options; configuration entries are added to them.
        providers: Execution providers in order.
        run_options: Configuration entries of every run.

    Raises:
        BackendError: ONNX Runtime refuses the graph.
    """

    def __init__(
        self,
        content: bytes,
        *,
        path: Path,
        data_folder: Path,
        options: SessionOptions,
        providers: Sequence[ProviderSpec],
        run_options: Mapping[str, str],
    ) -> None:
        self.path = path
        self._given: Mapping[str, tuple[npt.NDArray[Any], int]] = {}
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", _utf8(data_folder)
        )
        try:
            self._session = ort.InferenceSession(
                content, options, providers=[(p.name, dict(p.options)) for p in providers]
            )
            self._run_options = _make_run_options(run_options)
        except Exception as cause:  # its exception types share no base class
            raise self._error("loading", cause) from cause

    @property
    def providers(self) -> list[str]:
        """Execution providers that the session really uses."""
        return list(self._session.get_providers())

    @property
    def input_types(self) -> dict[str, str]:
        """Inputs by name, with their types, such as ``tensor(int64)``."""
        return {value.name: value.type for value in self._session.get_inputs()}

    @property
    def output_ranks(self) -> dict[str, int]:
        """Outputs by name, with their numbers of axes."""
        return {value.name: len(value.shape) for value in self._session.get_outputs()}

    def with_inputs(self, given: Mapping[str, tuple[npt.NDArray[Any], int]]) -> Self:
        """This session, with the same values of some inputs in all runs.

        Args:
            given: By the input's name its value, C-contiguous, and its ONNX element type.
        """
        session = copy.copy(self)
        session._given = dict(given)
        return session

    def new_binding(self) -> ort.IOBinding:
        """A binding of this session, empty but for the inputs that always have the same values."""
        binding = self._session.io_binding()
        for name, (array, onnx_type) in self._given.items():
            binding.bind_ortvalue_input(name, to_ort_value(array, onnx_type))
        return binding

    def run(self, binding: ort.IOBinding) -> None:
        """Run once with what is bound.

        Raises:
            BackendError: The run failed.
        """
        try:
            self._session.run_with_iobinding(binding, self._run_options)
        except Exception as cause:  # its exception types share no base class
            raise self._error("running", cause) from cause

    def run_arrays(
        self, outputs: Sequence[str], inputs: Mapping[str, npt.NDArray[Any]]
    ) -> list[npt.NDArray[Any]]:
        """Run once on arrays, for plans whose cache grows; the results own their memory.

        Raises:
            BackendError: The run failed.
        """
        try:
            given = {name: array for name, (array, _) in self._given.items()}
            feeds = {**inputs, **given}
            return cast(list[npt.NDArray[Any]], self._session.run(outputs, feeds, self._run_options))
        except Exception as cause:  # its exception types share no base class
            raise self._error("running", cause) from cause

    def run_values(self, outputs: Sequence[str], inputs: Mapping[str, ort.OrtValue]) -> list[ort.OrtValue]:
        """Run once on values, which may be of types that arrays do not have.

        Raises:
            BackendError: The run failed.
        """
        try:
            return list(self._session.run_with_ort_values(outputs, inputs, self._run_options))
        except Exception as cause:  # its exception types share no base class
            raise self._error("running", cause) from cause

    def _error(self, what: str, cause: Exception) -> BackendError:
        if isinstance(cause, MemoryError):
            return BackendError(f"{what} {self.path} failed: out of memory")
        return BackendError(f"{what} {self.path} failed in ONNX Runtime: {str(cause).strip()}")


def _utf8(folder: Path) -> str:
    """A path whose UTF-8 form is its name on disk, whatever Python takes the encoding of file names for.

    Raises:
        BackendError: There is none.
    """
    try:
        return os.fsencode(folder).decode("utf-8")
    except UnicodeDecodeError as cause:
        raise BackendError(
            f"{folder}: ONNX Runtime opens files by UTF-8 names only; give the folder a name in UTF-8"
        ) from cause


def to_ort_value(array: npt.NDArray[Any], onnx_type: int) -> ort.OrtValue:
    """Wrap a C-contiguous array without copying it; the array must outlive the value's use."""
    if array.dtype.isbuiltin == 1:
        return ort.OrtValue.ortvalue_from_numpy(array)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, onnx_type)


def _make_run_options(entries: Mapping[str, str]) -> Any:
    if not entries:
        return None  # a RunOptions object costs every call some microseconds
    options = ort.RunOptions()
    for key, value in entries.items():
        options.add_run_config_entry(key, value)
    return options
