"""Options of sessions, with ONNX Runtime's names.

Whatever has no effect here is refused as soon as it is set to something that would need one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from onnxgen.errors import CapabilityError, ConfigError
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.graph.ir.arrays import host_array
from onnxgen.graph.optimizer.level import OptimizationLevel
from onnxgen.graph.session.ort_value import OrtValue
from onnxgen.graph.session.strict_attributes import (
    Field,
    StrictAttributes,
    flag,
    num_threads,
    number,
    text,
)


class GraphOptimizationLevel(IntEnum):
    """How far the optimizer goes."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99

    @property
    def level(self) -> OptimizationLevel:
        """The optimizer's own word for it; it changes layouts in its last level."""
        return OptimizationLevel(min(self.value, OptimizationLevel.ALL))


class ExecutionMode(Enum):
    """Whether nodes run one after the other. `ORT_PARALLEL` is refused."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(Enum):
    """The order of nodes. Only `DEFAULT`, that of the file, is offered."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


def _level(value: Any) -> GraphOptimizationLevel:
    try:
        return GraphOptimizationLevel(value)
    except ValueError:
        raise ValueError(
            f"expected one of {', '.join(level.name for level in GraphOptimizationLevel)}"
        ) from None


def _path(value: Any) -> str:
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)
    raise ValueError("expected a path")


def _sequential(value: Any) -> ExecutionMode:
    if value is ExecutionMode.ORT_SEQUENTIAL:
        return value
    raise ValueError("nodes run one after the other here, kernels use the cores; leave it at ORT_SEQUENTIAL")


def _default_order(value: Any) -> ExecutionOrder:
    if value is ExecutionOrder.DEFAULT:
        return value
    raise ValueError("nodes run in the order of the model; leave it at DEFAULT")


SEVERITY = number(
    -1, 0, 1, 2, 3, 4, why="expected a whole number, -1 (as the process has it) or 0 (verbose) to 4 (fatal)"
)
VERBOSITY = number(0, why="there are no levels below verbose here; leave it at 0")

_FIELDS: Mapping[str, Field] = {
    "enable_cpu_mem_arena": (True, flag),
    "enable_mem_pattern": (True, flag),
    "enable_mem_reuse": (True, flag),
    "enable_profiling": (False, flag),
    "execution_mode": (ExecutionMode.ORT_SEQUENTIAL, _sequential),
    "execution_order": (ExecutionOrder.DEFAULT, _default_order),
    "graph_optimization_level": (GraphOptimizationLevel.ORT_ENABLE_ALL, _level),
    "inter_op_num_threads": (0, num_threads),
    "intra_op_num_threads": (0, num_threads),
    "log_severity_level": (-1, SEVERITY),
    "log_verbosity_level": (0, VERBOSITY),
    "logid": ("", text),
    "optimized_model_filepath": ("", _path),
    "profile_file_prefix": ("onnxgen_profile_", text),
    "use_deterministic_compute": (False, flag),
}

_CONFIG_KEYS = MappingProxyType(
    {
        "session.load_model_format": ("ONNX",),
        "session.disable_cpu_ep_fallback": ("1",),  # a session never uses a provider that was not asked for
        "session.inter_op.allow_spinning": ("0", "1"),  # there are no threads that could
        "session.intra_op.allow_spinning": ("1",),  # which says they may, not that they must
        "session.set_denormal_as_zero": ("0",),
    }
)


class SessionOptions(StrictAttributes):
    """How a session loads and runs a model. Attributes can be given as keyword arguments, too.

    Attributes:
        graph_optimization_level: See `GraphOptimizationLevel`.
        enable_mem_reuse: Whether values of a run share memory when their lifetimes allow it. ``enable_mem_pattern`` and
            ``enable_cpu_mem_arena`` mean the same here: any of them being False gives each value memory of its own.
        enable_profiling: Keep a trace of loading and of every run, which `InferenceSession.end_profiling` writes.
        profile_file_prefix: Beginning of that file's path; the time of the session's start is appended.
        optimized_model_filepath: Where to write the model after optimization; nowhere when empty.
        execution_mode: Only ``ORT_SEQUENTIAL``.
        execution_order: Only ``DEFAULT``.
        intra_op_num_threads: Most threads of a kernel while the session loads or runs; 0 leaves it to the process. The
            matrix library of NumPy has one number for the process, so other threads' products feel it meanwhile.
        inter_op_num_threads: Any number: it only counts for ``ORT_PARALLEL``, as with ONNX Runtime.
        log_severity_level: Least severity of what this session says through the logger ``onnxgen.graph.session``: 0
            verbose to 4 fatal; -1 leaves it to the process.
        log_verbosity_level: Only 0.
        logid: Begins each of those messages.
        use_deterministic_compute: Either: kernels give the same result for the same inputs anyway.

    Raises:
        ConfigError: an attribute that does not exist, or a value that would have no effect.
    """

    __slots__ = ("_config", "_denotations", "_dims", "_initializers")
    _fields = _FIELDS

    def __init__(self, **values: Any) -> None:
        object.__setattr__(self, "_config", {})
        object.__setattr__(self, "_dims", {})
        object.__setattr__(self, "_denotations", {})
        object.__setattr__(self, "_initializers", {})
        super().__init__(**values)

    @property
    def free_dimension_overrides(self) -> dict[str, int]:
        """Sizes by symbol."""
        return dict(self._dims)

    @property
    def free_denotation_overrides(self) -> dict[str, int]:
        """Sizes by denotation."""
        return dict(self._denotations)

    @property
    def initializers(self) -> dict[str, np.ndarray]:
        """Arrays that take the place of the model's initializers."""
        return dict(self._initializers)

    @property
    def memory_reuse(self) -> bool:
        """Whether values of a run may share memory."""
        return self.enable_mem_reuse and self.enable_mem_pattern and self.enable_cpu_mem_arena

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Fix a symbolic dimension of the inputs, so that shapes can be computed when the model is loaded."""
        self._dims[name] = _size(name, value)

    def add_free_dimension_override_by_denotation(self, denotation: str, value: int) -> None:
        """Fix the dimensions of inputs that carry a denotation such as ``DATA_BATCH``."""
        self._denotations[denotation] = _size(denotation, value)

    def add_initializer(self, name: str, value: Any) -> None:
        """Replace the content of an initializer by an array or an `OrtValue` of the same type and shape."""
        array = value.numpy() if isinstance(value, OrtValue) else host_array(value, f"initializer {name!r}")
        self._initializers[name] = array

    def add_external_initializers(self, names: Sequence[str], values: Sequence[Any]) -> None:
        """`add_initializer` for several."""
        if len(names) != len(values):
            raise ConfigError(f"{len(names)} names of initializers for {len(values)} values")
        for name, value in zip(names, values, strict=True):
            self.add_initializer(name, value)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Set one of the few named settings that mean something here.

        Raises:
            ConfigError: the key or the value is not known.
        """
        if key not in _CONFIG_KEYS:
            raise ConfigError(
                f"no session setting is called {key!r}{did_you_mean(key, _CONFIG_KEYS)}; there are {', '.join(_CONFIG_KEYS)}"
            )
        if value not in _CONFIG_KEYS[key]:
            raise ConfigError(
                f"session setting {key!r} = {value!r}: expected {' or '.join(_CONFIG_KEYS[key])}"
            )
        self._config[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """What was set under that key.

        Raises:
            ConfigError: nothing was.
        """
        if key not in self._config:
            raise ConfigError(f"nothing was set for session setting {key!r}")
        return self._config[key]

    def register_custom_ops_library(self, path: str) -> NoReturn:
        """Raises `CapabilityError`: operators of one's own come with an execution provider."""
        raise CapabilityError(
            f"cannot load {path!r}: libraries of operators are written for another runtime; put the operators into an "
            "execution provider"
        )


def _size(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise ConfigError(f"the size of dimension {name!r} is a whole number of at least 0, found {value!r}")
    return int(value)
