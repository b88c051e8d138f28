"""A plan: the readable Python function that executes a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from onnxgen.graph.planner.layout import Layout
from onnxgen.graph.planner.program import Call, Program


@dataclass(frozen=True, slots=True)
class Form:
    """Which of the functions over one program a plan is.

    Attributes:
        stoppable: Asks between calls whether the run was told to stop.
        traced: Every call is a span of a trace.
        lends: Outputs may be memory of inputs: the caller knows (graphs inside control flow).
    """

    stoppable: bool = False
    traced: bool = False
    lends: bool = False


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Plan:
    """Source and code of one function.

    Attributes:
        program: What it executes, without what its outputs do not need.
        layout: Which values it has in an arena; None when every value is new memory.
        source: The function, as a module's text.
        code: The same, compiled.
        calls_by_line: The call on each line of the source that has one, counted from 1.
    """

    program: Program
    layout: Layout | None
    source: str
    code: CodeType
    calls_by_line: Mapping[int, Call]

    def bind(
        self, kernels: Sequence[Callable[..., Any]] | None = None, **helpers: Any
    ) -> Callable[..., tuple[Any, ...]]:
        """The function over this program's kernels and constants.

        Args:
            kernels: What is called in place of the program's own kernels.
            **helpers: ``fresh`` (copies a value), ``span`` (opens a call's span), ``view`` (is told what should be a view
                and of what) and ``buffers`` (arrays, in the layout's order).
        """
        written = self.layout.written if self.layout else ()
        own = [
            call.kernel.into if i in written else call.kernel.run for i, call in enumerate(self.program.calls)
        ]
        module: dict[str, Any] = {"__name__": self.code.co_filename, "__loader__": _Source(self.source)}
        exec(self.code, module)  # noqa: S102 (our own text)
        make = module.pop(
            "make"
        )  # it refers to the module: together they would wait for the garbage collector
        return make(own if kernels is None else kernels, list(self.program.constants.values()), **helpers)


@dataclass(frozen=True, slots=True)
class _Source:
    """What `linecache` asks for the lines of generated code."""

    source: str

    def get_source(self, name: str) -> str:
        return self.source
