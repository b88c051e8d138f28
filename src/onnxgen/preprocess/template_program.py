"""A compiled chat template."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import jinja2
from jinja2.exceptions import SecurityError

from onnxgen.errors import ChatTemplateError
from onnxgen.preprocess.shadow_text import plain
from onnxgen.preprocess.template_environment import ChatEnvironment, RaisedByTemplate
from onnxgen.preprocess.template_limits import Budget, spending

_MAX_SOURCE_CHARS = 1_000_000


class TemplateProgram:
    """One template, compiled; renders in any thread.

    Attributes:
        source: Where the template came from, for messages.
    """

    def __init__(self, text: str, source: str, budget: Budget) -> None:
        self.source = source
        if len(text) > _MAX_SOURCE_CHARS:
            raise ChatTemplateError(
                f"{source}: the template has {len(text)} characters, at most {_MAX_SOURCE_CHARS} are allowed"
            )
        environment = ChatEnvironment()
        try:
            with spending(budget):
                code = environment.compile(text, filename=source)
        except jinja2.TemplateSyntaxError as cause:
            raise ChatTemplateError(f"{source}, line {cause.lineno}: {cause.message}") from cause
        except (RecursionError, MemoryError) as cause:
            raise ChatTemplateError(f"{source}: the template is nested too deeply") from cause
        self._template = jinja2.Template.from_code(environment, code, environment.make_globals(None))

    def render(
        self,
        context: Mapping[str, Any],
        *,
        budget: Budget,
        clock: Callable[[], datetime.datetime] | None,
    ) -> str:
        """Render the template.

        Raises:
            ChatTemplateError: With the template's own message if it calls ``raise_exception``, otherwise with
                the place and what went wrong there.
        """
        now = clock or datetime.datetime.now

        def strftime_now(format: str) -> str:
            return now().strftime(format)

        pieces: list[str] = []
        size = 0
        try:
            with spending(budget):
                for piece in self._template.generate({**context, "strftime_now": strftime_now}):
                    size += len(piece)
                    budget.check_size(size)
                    pieces.append(piece)
        except RaisedByTemplate as cause:
            raise ChatTemplateError(
                f"the chat template refuses these messages: {plain(str(cause.message))}"
            ) from cause
        except SecurityError as cause:
            raise ChatTemplateError(
                f"{self._place(cause)}: the sandbox refuses this: {plain(str(cause))}"
            ) from cause
        except ChatTemplateError as cause:
            raise ChatTemplateError(f"{self._place(cause)}: {cause}") from cause
        except RecursionError as cause:
            raise ChatTemplateError(f"{self.source}: the template calls itself too deeply") from cause
        except Exception as cause:
            raise ChatTemplateError(
                f"{self._place(cause)}: {type(cause).__name__}: {plain(str(cause))}"
            ) from cause
        return "".join(pieces)

    def _place(self, error: BaseException) -> str:
        # jinja2 rewrites tracebacks so that frames of the template carry the template's own lines.
        line: int | None = None
        trace: TracebackType | None = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.source:
                line = trace.tb_lineno
            trace = trace.tb_next
        return self.source if line is None else f"{self.source}, line {line}"
