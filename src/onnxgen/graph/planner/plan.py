"""A plan: the readable Python function that executes a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

from onnxgen.graph.planner.program import Call, Program


@dataclass(frozen=True, slots=True)
class Form:
    """Which of the functions over one program a plan is.

    Attributes:
        stoppable: Asks between calls whether the run was told to stop.
        traced: Every call is a span of a trace.
    """

    stoppable: bool = False
    traced: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Source and code of one function.

    Attributes:
        program: What it executes, without what its outputs do not need.
        source: The function, as a module's text.
        code: The same, compiled.
        calls_by_line: The call on each line of the source that has one, counted from 1.
    """

    program: Program
    source: str
    code: CodeType
    calls_by_line: Mapping[int, Call]

    def bind(self, **names: Any) -> Callable[..., tuple[Any, ...]]:
        """The function over these kernels, constants and helpers: what the source's ``make`` takes."""
        module: dict[str, Any] = {"__name__": self.code.co_filename, "__loader__": _Source(self.source)}
        exec(self.code, module)  # noqa: S102 (our own text)
        return module["make"](**names)


@dataclass(frozen=True, slots=True)
class _Source:
    """What `linecache` asks for the lines of generated code."""

    source: str

    def get_source(self, name: str) -> str:
        return self.source
