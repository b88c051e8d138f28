"""`WholeGraph`: a decoder's own graph on all rows at once, for what steps do not bring: any of its outputs, by name.

Steps run a rewritten graph, whose values are laid out otherwise and whose other outputs are gone. So this runs the one
that the folder has, beside them, with a cache of its own, and gives what it gives::

    run of   [ p p p p ]           ids [rows, 4], no past
    run of   [ p p p p | t ]       ids [rows, 1], past of 4: what the run before left
    run of   [ p p p p t t | t ]   a run is missing: the 6 before are run first, all at once
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from onnxgen.backends.base import DecoderModel, Int64Array
from onnxgen.backends.ort.options import choose_providers, make_session_options
from onnxgen.backends.ort.ports import AdapterPort, StateKind, StatePort
from onnxgen.backends.ort.session import OrtSession, to_ort_value
from onnxgen.errors import CapabilityError
from onnxgen.foundations.runtime_config import RuntimeConfig

Array = npt.NDArray[Any]


class WholeGraph:
    """A session of a decoder's own graph. May be used from several threads.

    Args:
        model: The decoder.
        config: Threads and providers.
        given: Inputs beside ids, masks, positions and caches that `WholeGraphRun` is given values for.

    Attributes:
        outputs: Names of all outputs.

    Raises:
        ModelFileError: A file of the model is missing or broken.
        CapabilityError: The graph has a cache of a fixed size.
        BackendError: ONNX Runtime refuses it.
    """

    def __init__(
        self, model: DecoderModel, config: RuntimeConfig, *, given: frozenset[str] = frozenset()
    ) -> None:
        import onnx_ir as ir

        from onnxgen.backends.ort.graph_edit import lora
        from onnxgen.backends.ort.model_file import parse_decoder, read_content
        from onnxgen.backends.ort.read_ports import known_inputs, read_ports, settle_presets

        file = parse_decoder(model, read_content(model))
        graph = file.model.graph
        settled = [*lora.settle_inputs(graph, known_inputs(model)), *settle_presets(graph)]
        self.ports = read_ports(graph, model)
        fixed = [state.past for state in self.ports.states if state.positions is not None]
        if fixed:
            raise CapabilityError(
                f"{model.path}: {fixed[0]} has a fixed number of positions, so the graph cannot be run beside a generator"
            )
        opened = lora.open_inputs(graph, [name for name in settled if name in given])
        self.given: Mapping[str, AdapterPort] = {p.name: p for p in (*self.ports.required, *opened)}
        self.outputs = tuple(str(value.name) for value in graph.outputs)
        self._session = OrtSession(
            ir.to_proto(file.model).SerializeToString(),
            path=model.path,
            data_folder=file.data_folder,
            options=make_session_options(model, config),
            providers=choose_providers(model, config, ort.get_available_providers()),
            run_options=model.run_options,
        )
        self._lock = threading.Lock()

    def run(self, names: list[str], feeds: Mapping[str, ort.OrtValue]) -> list[ort.OrtValue]:
        """Run once.

        Raises:
            BackendError: ONNX Runtime failed.
        """
        with self._lock:
            return self._session.run_values(names, feeds)


class WholeGraphRun:
    """Runs of some rows, each with what the ones before it left.

    Args:
        graph: What is run.
        given: By name, values of further inputs, for all runs.
    """

    def __init__(self, graph: WholeGraph, given: Mapping[str, Array]) -> None:
        self._graph = graph
        self._given = {name: _value(value, graph.given[name]) for name, value in given.items()}
        self._ids = self._mask = np.zeros((0, 0), np.int64)
        self._num_new = 0
        self._states: dict[str, ort.OrtValue] = {}
        self._outputs: dict[str, ort.OrtValue] = {}

    def output(self, name: str, *, ids: Int64Array, mask: Int64Array, num_new: int) -> Array:
        """An output of the run of the last ``num_new`` tokens, as the graph gives it.

        Args:
            name: One of ``WholeGraph.outputs``.
            ids: int64 ``[rows, total]``, all tokens up to them.
            mask: int64 ``[rows, total]``, 0 where nothing is to be seen.
            num_new: How many of them the run is fed.

        Raises:
            BackendError: ONNX Runtime failed.
        """
        if not (self._holds(ids, mask, ids.shape[1]) and num_new == self._num_new and self._outputs):
            before = ids.shape[1] - num_new
            if not self._holds(ids, mask, before):
                self._states = {s.past: _empty(s, len(ids)) for s in self._graph.ports.states}
                self._outputs = {}
                for start, end in _runs(mask[:, :before]):
                    self._run(ids[:, :end], mask[:, :end], end - start, only_states=True)
            self._run(ids, mask, num_new, only_states=False)
        return self._outputs[name].numpy()

    def _holds(self, ids: Int64Array, mask: Int64Array, length: int) -> bool:
        """Whether the first ``length`` tokens, and no others, were run."""
        return (
            self._ids.shape == (len(ids), length)
            and np.array_equal(self._ids, ids[:, :length])
            and np.array_equal(self._mask, mask[:, :length])
        )

    def _run(self, ids: Int64Array, mask: Int64Array, num_new: int, *, only_states: bool) -> None:
        ports = self._graph.ports
        names = [state.present for state in ports.states]
        if not only_states:
            names += [name for name in self._graph.outputs if name not in names]
        positions = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
        feeds = {**self._given, **self._states}
        for port, values in (
            (ports.input_ids, ids[:, -num_new:]),
            (ports.position_ids, positions[:, -num_new:]),
            (ports.attention_mask, mask),
        ):
            if port is not None:
                feeds[port.name] = ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(values, port.dtype))
        found = dict(zip(names, self._graph.run(names, feeds), strict=True))
        self._states = {state.past: found[state.present] for state in ports.states}
        self._outputs = {} if only_states else found
        self._ids, self._mask, self._num_new = ids, mask, num_new


def _runs(mask: Int64Array) -> list[tuple[int, int]]:
    """Runs that compute all of some tokens: one, or with padding the prompt's, which ends with it, and one for each token."""
    length = mask.shape[1]
    padded = np.flatnonzero(~mask.all(axis=0))
    ends = [length] if not padded.size else range(int(padded[-1]) + 1, length + 1)
    return [run for run in itertools.pairwise([0, *ends]) if run[0] < run[1]]


def _empty(port: StatePort, rows: int) -> ort.OrtValue:
    dims = port.dims
    shape: tuple[int, ...] = (rows, *dims)
    if port.kind is StateKind.KEY_VALUE:
        shape = rows, dims[0], 0, dims[1]
    elif port.kind is StateKind.COMBINED:
        shape = dims[0], rows, dims[1], 0, dims[2]
    return _value(np.zeros(shape, bool), port)


def _value(array: Array, port: StatePort | AdapterPort) -> ort.OrtValue:
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, port.dtype, port.dtype))
    return to_ort_value(np.array(array, dtype, order="C"), port.onnx_type)
