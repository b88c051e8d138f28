"""`ToolChoice`: whether and which tools an answer may or must call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from onnxgen.errors import OptionError
from onnxgen.foundations.suggest import did_you_mean

if TYPE_CHECKING:
    from onnxgen.preprocess.tool_calls.tools import ToolDefinition


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether and which tools are called.

    Attributes:
        kind: ``none``: no tool; ``auto``: the model decides; ``required``: at least one; ``named``: exactly the one.
        name: The tool that is named.
    """

    kind: Literal["none", "auto", "required", "named"] = "auto"
    name: str | None = None

    def check(self, tools: Sequence[ToolDefinition]) -> None:
        """Refuse a choice that tools do not allow.

        Raises:
            OptionError: A tool has to be called and none is offered, or the one that is named is not.
        """
        if self.kind in ("required", "named") and not tools:
            raise OptionError(f"tool_choice is {self.name or self.kind!r}, and no tools were given")
        names = [tool.name for tool in tools]
        if self.name is not None and self.name not in names:
            raise OptionError(
                f"tool_choice names {self.name!r:.80}{did_you_mean(self.name, names)}; the tools are {', '.join(names)}"
            )


AUTO = ToolChoice()
"""The model decides."""


def read_tool_choice(value: object) -> ToolChoice:
    """A choice in the forms callers know.

    Args:
        value: ``none``, ``auto`` or ``required``; or OpenAI's ``{"type": "function", "function": {"name": ...}}``, with the
            name beside the type too; or a `ToolChoice`.

    Raises:
        OptionError: It is something else.
    """
    if isinstance(value, ToolChoice):
        return value
    if value in ("none", "auto", "required"):
        return ToolChoice(cast("Any", value))
    if isinstance(value, Mapping):
        given = cast("Mapping[str, Any]", value)
        function = given.get("function", given)
        name: Any = cast("Mapping[str, Any]", function).get("name") if isinstance(function, Mapping) else None
        if given.get("type") == "function" and isinstance(name, str) and name:
            return ToolChoice("named", name)
    raise OptionError(
        "tool_choice must be 'none', 'auto', 'required' or {'type': 'function', 'function': {'name': ...}}, "
        f"got {value!r:.120}"
    )
