"""Adapters with ONNX Runtime: sessions of graphs that take them as inputs, beside the one that has none.

A session is made when the first adapter needs it, and shared by all that change the same layers, or fewer: what one
does not change gets zeros of rank 1. So requests without an adapter pay nothing, and the price is memory: ONNX Runtime
keeps packed copies of quantized weights for each session.

    plain session                    requests without an adapter
    session open to q, k, v, o  ──┬─ plan of adapter "poems", its matrices bound        one cache for all
                                  └─ plan of adapter "code"
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.backends.adapters import Adapter
from onnxgen.backends.base import DecoderModel
from onnxgen.backends.lora_places import Linear, place_pairs
from onnxgen.backends.ort.graph_edit.names import LORA_A, LORA_B
from onnxgen.backends.ort.plan import LoadedDecoder, Plan
from onnxgen.backends.ort.ports import AdapterPort
from onnxgen.backends.ort.prepare import NOTHING, OpenTo, adaptable
from onnxgen.errors import ModelFileError

Array = npt.NDArray[Any]


@dataclass(slots=True, eq=False)
class AdaptedPlan:
    """The plan of one adapter.

    Attributes:
        plan: Executes its steps.
        open_to: What its session is open to.
    """

    plan: Plan
    open_to: OpenTo


@dataclass(slots=True)
class _Session:
    loaded: LoadedDecoder
    users: int = field(default=0)


class AdapterSessions:
    """Sessions that adapters share.

    Args:
        model: The decoder.
        plain: The session that is open to nothing.
        load: Makes a session that is open to something.
        make_plan: Makes a plan like that of the plain session.
    """

    def __init__(
        self,
        model: DecoderModel,
        *,
        plain: LoadedDecoder,
        load: Callable[[OpenTo], LoadedDecoder],
        make_plan: Callable[[LoadedDecoder], Plan],
    ) -> None:
        self._model, self._plain, self._load, self._make_plan = model, plain, load, make_plan
        self._sessions: dict[OpenTo, _Session] = {}
        self._linears: list[Linear] | None = None
        self._settled = plain.prepared.settled
        self._required = tuple(port.name for port in plain.prepared.ports.required)
        self._lock = threading.Lock()

    def bind(self, adapter: Adapter) -> AdaptedPlan:
        """The plan of an adapter.

        Raises:
            ModelFileError: It does not fit the model.
            CapabilityError: The changed graph cannot be run as the plain one is.
            BackendError: ONNX Runtime refuses it.
        """
        with self._lock:
            values = self._values(adapter)
            inputs = tuple(name for name in adapter.inputs if name in self._settled)
            open_to, session = self._session(OpenTo(inputs=inputs, nodes=_nodes(values)))
            session.users += 1
            try:
                ports = session.loaded.prepared.ports
                given = {
                    p.name: _given(p, values.get(p.name), adapter) for p in (*ports.adapter, *ports.required)
                }
                return AdaptedPlan(self._make_plan(session.loaded.with_inputs(given)), open_to)
            except BaseException:
                self._leave(open_to)
                raise

    def unbind(self, adapted: AdaptedPlan) -> None:
        """Let go of a plan, and of its session with the last one."""
        with self._lock:
            self._leave(adapted.open_to)

    def close(self) -> None:
        """Let go of all sessions: their backend is closed."""
        with self._lock:
            self._sessions.clear()

    def _leave(self, open_to: OpenTo) -> None:
        session = self._sessions[open_to]
        session.users -= 1
        if not session.users:
            del self._sessions[open_to]

    def _values(self, adapter: Adapter) -> dict[str, Array]:
        """What the inputs are given, by name; of matrices still in float32."""
        known = (*self._required, *self._settled)
        missing = [name for name in self._required if name not in adapter.inputs]
        if missing:
            raise ModelFileError(
                f"{adapter.source}: there is no value for the input {missing[0]!r} of the model"
            )
        unknown = [name for name in adapter.inputs if name not in known]
        if unknown:
            has = ", ".join(known[:4]) + (", ..." if len(known) > 4 else "")
            raise ModelFileError(
                f"{adapter.source}: the model has no inputs {unknown[:4]} for adapters ({len(unknown)} of "
                f"{len(adapter.inputs)}); it has {has or 'none'}"
            )
        values: dict[str, Array] = dict(adapter.inputs)
        if adapter.pairs and self._linears is None:
            self._linears = adaptable(self._model)
        for node, pair in place_pairs(adapter, self._linears or []).items() if adapter.pairs else ():
            values[f"{LORA_A}{node}"], values[f"{LORA_B}{node}"] = pair.a.T, pair.b.T
        return values

    def _session(self, wanted: OpenTo) -> tuple[OpenTo, _Session]:
        """A session that is open to all that is wanted, the one that is open to least."""
        if wanted == NOTHING:
            return wanted, self._sessions.setdefault(wanted, _Session(self._plain))
        nodes = set(wanted.nodes)
        fitting = [o for o in self._sessions if o.inputs == wanted.inputs and nodes <= set(o.nodes)]
        if fitting:
            best = min(fitting, key=lambda o: len(o.nodes))
            return best, self._sessions[best]
        session = self._sessions[wanted] = _Session(self._load(wanted))
        return wanted, session


def _nodes(values: Mapping[str, Array]) -> tuple[str, ...]:
    return tuple(sorted(name.removeprefix(LORA_A) for name in values if name.startswith(LORA_A)))


def _given(port: AdapterPort, value: Array | None, adapter: Adapter) -> tuple[Array, int]:
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, port.dtype, port.dtype))
    if value is None:  # of rank 1, which adds nothing
        return np.zeros([1 if dim is None else dim for dim in port.dims], dtype), port.onnx_type
    if len(value.shape) != len(port.dims) or any(
        dim not in (None, size) for dim, size in zip(port.dims, value.shape, strict=True)
    ):
        expected = ["any" if dim is None else dim for dim in port.dims]
        raise ModelFileError(
            f"{adapter.source}: {port.name} is {list(value.shape)}, expected {expected} for this model"
        )
    return np.array(value, dtype, order="C"), port.onnx_type
