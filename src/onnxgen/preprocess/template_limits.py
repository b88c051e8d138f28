"""What one rendering of a template may use, checked while it runs.

The sandbox keeps a template away from Python, not from the machine: a few doublings of a string fill
any memory. So every operation that can make something larger than its operands asks here first.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Generator, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

from onnxgen.errors import ChatTemplateError

_MAX_WIDTH = 100_000
_MAX_INT_BITS = 4096
_LONG_NUMBER = re.compile(r"\d{6,}")
_BASE_CHARS = 4_000_000


@dataclass(frozen=True, slots=True)
class RenderLimits:
    """Limits of one rendering.

    Attributes:
        max_chars: Longest text, and most values of a list, that may come up on the way; None for four
            million characters and four times the size of the messages.
        max_seconds: Time until the rendering is given up.
    """

    max_chars: int | None = None
    max_seconds: float = 5.0


class Budget:
    """The limits of one rendering and the clock that they started at."""

    def __init__(self, limits: RenderLimits, *, input_chars: int = 0) -> None:
        self._limits = limits
        self.max_chars = _BASE_CHARS + 4 * input_chars if limits.max_chars is None else limits.max_chars
        self._spent = 0
        self._deadline = time.monotonic() + limits.max_seconds

    def tick(self) -> None:
        """Give up when the time is over.

        Raises:
            ChatTemplateError: The rendering took longer than it may.
        """
        if time.monotonic() > self._deadline:
            raise ChatTemplateError(
                f"rendering took more than {self._limits.max_seconds:g} s and was given up"
            )

    def check_size(self, size: int) -> None:
        """Refuse a text or list of that many characters or values.

        Raises:
            ChatTemplateError: It is more than may come up.
        """
        self.tick()
        if size > self.max_chars:
            raise ChatTemplateError(
                f"rendering made a text or list of {size} characters or values; at most {self.max_chars} are allowed"
            )

    def spend(self, chars: int) -> None:
        """Count text that goes into the output, or into a macro's or block's own.

        Raises:
            ChatTemplateError: All together it is more than four times what may come up at once.
        """
        self._spent += chars
        self.check_size(max(chars, self._spent // 4))

    def check_width(self, *values: Any) -> None:
        """Refuse a width, indent or count that no prompt needs."""
        for value in values:
            if isinstance(value, int) and abs(value) > _MAX_WIDTH:
                raise ChatTemplateError(
                    f"rendering asked for a width of {value}; at most {_MAX_WIDTH} is allowed"
                )

    def check_format(self, spec: str, values: Iterable[Any]) -> None:
        """Refuse format strings whose fields are very wide, in themselves or by their arguments."""
        values = list(values)
        for number in _LONG_NUMBER.findall(spec):
            self.check_width(int(number[:9]))
        if "*" in spec or re.search(r"\{[^}]*\{", spec):
            self.check_width(*values)
        longest = sum(self.measure(value) for value in values)
        self.check_size(len(spec) + longest * max(1, spec.count("{") + spec.count("%")))

    def check_int(self, value: Any) -> None:
        """Refuse whole numbers of thousands of digits."""
        if isinstance(value, int) and value.bit_length() > _MAX_INT_BITS:
            raise ChatTemplateError("rendering made a whole number of more than a thousand digits")

    def measure(self, value: Any) -> int:
        """Characters of a value written out, at least; stops where it is too many anyway.

        Raises:
            ChatTemplateError: It is more than may come up.
        """
        if isinstance(value, str):
            return len(value)
        total = steps = 0
        pending: list[Any] = [value]
        while pending:
            item = pending.pop()
            steps += 1
            if not steps % 4096:
                self.tick()
            if isinstance(item, str):
                total += len(item)
            elif isinstance(item, Mapping):
                pending.extend(cast("Mapping[Any, Any]", item).keys())
                pending.extend(cast("Mapping[Any, Any]", item).values())
                total += 2
            elif isinstance(item, list | tuple | set | frozenset):
                pending.extend(cast("Iterable[Any]", item))
                total += 2
            else:
                total += 4
            if total > self.max_chars:
                self.check_size(total)
        return total


_current: ContextVar[Budget | None] = ContextVar("template_budget", default=None)


@contextlib.contextmanager
def spending(budget: Budget) -> Generator[None]:
    """Let everything inside the block, in this thread, count against a budget."""
    token = _current.set(budget)
    try:
        yield
    finally:
        _current.reset(token)


def current_budget() -> Budget:
    """The budget of the rendering that is under way."""
    budget = _current.get()
    assert budget is not None, "templates are compiled and rendered inside spending()"
    return budget
