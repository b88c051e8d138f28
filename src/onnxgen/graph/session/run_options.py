"""Options of runs, with ONNX Runtime's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from onnxgen.errors import ConfigError
from onnxgen.graph.session.options import SEVERITY, VERBOSITY
from onnxgen.graph.session.strict_attributes import Field, StrictAttributes, flag, text

_FIELDS: Mapping[str, Field] = {
    "log_severity_level": (-1, SEVERITY),
    "log_verbosity_level": (0, VERBOSITY),
    "logid": ("", text),
    "only_execute_path_to_fetches": (False, flag),
    "terminate": (False, flag),
}


class RunOptions(StrictAttributes):
    """How one or more runs behave. Attributes can be given as keyword arguments, too.

    Attributes:
        terminate: Set it, from any thread, and runs that use these options end with `RunCancelledError` after the node
            that they are at. It stays set: later runs end at once until it is False again.
        logid: Begins each message about runs with these options.
        log_severity_level: As for `SessionOptions`; -1 leaves it to the session.
        log_verbosity_level: Only 0.
        only_execute_path_to_fetches: Either: what no wanted output needs is never run.

    Raises:
        ConfigError: an attribute that does not exist, or a value that would have no effect.
    """

    __slots__ = ()
    _fields = _FIELDS

    def add_run_config_entry(self, key: str, value: str) -> NoReturn:
        """Raises `ConfigError`: no setting of runs means anything here."""
        raise ConfigError(f"no run setting is called {key!r} (asked for {value!r}); there are none")

    def get_run_config_entry(self, key: str) -> NoReturn:
        """Raises `ConfigError`: nothing can have been set."""
        raise ConfigError(f"nothing was set for run setting {key!r}")
