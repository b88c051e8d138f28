"""What generators tell about themselves and where it goes, by onnxruntime-genai's names.

Messages go to the logger ``onnxgen.generator``. A callback or a file is a handler of it; there is one of the two at most,
and without either they go wherever the application sends its log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from onnxgen.errors import CapabilityError, OptionError
from onnxgen.foundations.suggest import did_you_mean

TOLD = ("generate_next_token", "append_next_tokens", "hit_eos", "hit_max_length")
_VALUES = (
    "model_input_values",
    "model_output_shapes",
    "model_output_values",
    "model_logits",
    "ort_lib",
    "graph_capture",
)
_STYLE = ("ansi_tags", "value_stats")

_package = logging.getLogger("onnxgen")
_logger = logging.getLogger("onnxgen.generator")
# one for the process, as the original's options and Python's loggers are
_told: set[str] = set()
_handler: logging.Handler | None = None


def is_told(kind: str) -> bool:
    """Whether messages of a kind are on, for those that take work to write."""
    return kind in _told


def tell(kind: str, text: str, *values: object) -> None:
    """Log what a generator does, if messages of this kind are on.

    Args:
        kind: One of `TOLD`.
        text: A format of `logging`.
        values: For the format.
    """
    if kind in _told:
        _logger.info(text, *values)


def set_log_options(**options: bool | str) -> None:
    """Switch messages on or off.

    Args:
        options: ``enabled`` shows messages from level INFO on, False warnings only. ``generate_next_token``,
            ``append_next_tokens``, ``hit_eos`` and ``hit_max_length`` are what generators tell. ``filename`` sends their
            messages to the end of a file; an empty one does so no more. The other names of onnxruntime-genai are accepted
            where they ask for nothing.

    Raises:
        OptionError: An option is unknown or of the wrong type, or the file cannot be written.
        CapabilityError: Tensor values are to be shown.
    """
    for name, value in options.items():
        _check(name, value)
    if "enabled" in options:
        _package.setLevel(logging.INFO if options["enabled"] else logging.WARNING)
    for name in TOLD:
        if name in options:
            (_told.add if options[name] else _told.discard)(name)
    if "filename" in options:
        _send_to(_file_handler(str(options["filename"])) if options["filename"] else None)


def set_log_callback(callback: Callable[[str], object] | None) -> None:
    """Give what generators tell to a function, in place of a file; None gives it to nobody any more.

    Raises:
        OptionError: It cannot be called.
    """
    if callback is not None and not callable(callback):  # pyright: ignore[reportUnnecessaryComparison]
        raise OptionError(f"a log callback must be a function of one text, got {callback!r:.60}")
    _send_to(None if callback is None else _Callback(callback))


class _Callback(logging.Handler):
    def __init__(self, callback: Callable[[str], object]) -> None:
        super().__init__()
        self._callback = callback

    def emit(self, record: logging.LogRecord) -> None:
        self._callback(self.format(record))


def _file_handler(path: str) -> logging.Handler:
    try:
        return logging.FileHandler(path, encoding="utf-8")
    except OSError as cause:
        raise OptionError(f"messages cannot be written to {path}: {cause}") from cause


def _send_to(handler: logging.Handler | None) -> None:
    global _handler
    if _handler is not None:
        _logger.removeHandler(_handler)
        _handler.close()
    _handler = handler
    _logger.propagate = handler is None
    if handler is not None:
        _logger.addHandler(handler)


def _check(name: str, value: object) -> None:
    switches = ("enabled", "warning", *TOLD, *_VALUES, *_STYLE)
    if name == "filename":
        if not isinstance(value, str):
            raise OptionError(f"filename must be a path, got {value!r:.60}")
        return
    if name not in switches:
        raise OptionError(f"unknown log option {name!r}{did_you_mean(name, (*switches, 'filename'))}")
    if not isinstance(value, bool):
        raise OptionError(f"{name} must be True or False, got {value!r}")
    if name in _VALUES and value:
        raise CapabilityError(f"{name} was asked for; this version does not log what goes through a model")
