"""`allowed_tools`: the tools of a request of which only some may be called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from onnxgen.foundations.suggest import did_you_mean
from onnxgen.server.errors import ApiError

Tools = Sequence[Mapping[str, Any]]


def allowed_tools(
    tools: Tools, choice: str | Mapping[str, Any] | None
) -> tuple[list[dict[str, Any]], str | Mapping[str, Any] | None]:
    """The tools that are offered, and the choice among them, without OpenAI's ``allowed_tools``.

    Those that may not be called are not shown to the model.

    Args:
        tools: What the request has.
        choice: Its ``tool_choice``.

    Raises:
        ApiError: 400: the choice names no tools, or one that is not there.
    """
    if not isinstance(choice, Mapping) or choice.get("type") != "allowed_tools":
        return [dict(tool) for tool in tools], choice
    given: Any = choice.get("allowed_tools", choice)
    given = cast("Mapping[str, Any]", given if isinstance(given, Mapping) else {})
    mode, listed = given.get("mode", "auto"), given.get("tools")
    if mode not in ("auto", "required") or not isinstance(listed, list) or not listed:
        raise _wrong("allowed_tools needs a mode (auto or required) and a list of tools")
    names = [_name(tool) for tool in tools]
    allowed = [_name(tool) for tool in cast("list[Any]", listed)]
    for name in allowed:
        if name not in names:
            hint = did_you_mean(str(name), [n for n in names if n])
            raise _wrong(f"allowed_tools names {name!r:.80}{hint}, which is not one of the tools")
    return [dict(tool) for tool, name in zip(tools, names, strict=True) if name in allowed], mode


def _name(tool: Any) -> str | None:
    """The name of a function, which may stand beside the type or inside ``function``."""
    fields = cast("Mapping[str, Any]", tool if isinstance(tool, Mapping) else {})
    inner = fields.get("function", fields)
    name: Any = cast("Mapping[str, Any]", inner).get("name") if isinstance(inner, Mapping) else None
    return name if isinstance(name, str) else None


def _wrong(message: str) -> ApiError:
    return ApiError(400, f"tool_choice: {message}", param="tool_choice")
