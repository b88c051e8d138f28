"""Options of answers and prompts from the command line: flags for the common ones, ``--set`` for all others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from onnxgen.errors import OptionError

if TYPE_CHECKING:
    from onnxgen.facade.generation_options import GenerationOptions
    from onnxgen.facade.prompt_options import PromptOptions


def answer_options(settings: Sequence[str] | None, **flags: Any) -> tuple[GenerationOptions, PromptOptions]:
    """How to answer, and how a conversation becomes a prompt, by flags and settings.

    Args:
        settings: Of the form ``NAME=VALUE``; a value is JSON where it can be read so, else a text. Names in JSON that
            are numbers, of token ids and of places, are taken as numbers.
        flags: Options that have a flag of their own; None: not given.

    Raises:
        OptionError: A setting has another form, names an unknown option, or one that has a flag which was given too.
    """
    from onnxgen.facade.prompt_options import changed_chat_options

    options = {name: value for name, value in flags.items() if value is not None}
    for setting in settings or ():
        name, equals, text = setting.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise OptionError(f"--set takes NAME=VALUE, got {setting!r}")
        if name in options:
            raise OptionError(f"{name} was given twice")
        options[name] = _value(text)
    if options.get("n", 1) != 1:
        raise OptionError(
            f"the command line gives one answer, got n={options['n']}; ask again, or use LLM.generate"
        )
    return changed_chat_options(None, None, options)


def read_schema(path: Path | None) -> dict[str, Any] | None:
    """What ``--schema`` asks answers to be, as ``response_format`` takes it.

    Raises:
        OptionError: The file cannot be read, or is no JSON.
    """
    return None if path is None else {"type": "json_schema", "json_schema": _read_json(path, "--schema")}


def read_tools_file(path: Path | None) -> list[Any] | None:
    """The definitions of tools in the file of ``--tools``.

    Raises:
        OptionError: The file cannot be read, or is no list in JSON.
    """
    if path is None:
        return None
    tools = _read_json(path, "--tools")
    if not isinstance(tools, list):
        raise OptionError(f"--tools {path}: a JSON list of definitions was expected, got {tools!r:.60}")
    return cast("list[Any]", tools)


def _read_json(path: Path, flag: str) -> Any:
    try:
        return json.loads(path.expanduser().read_text(encoding="utf-8"))
    except (OSError, ValueError) as cause:
        raise OptionError(f"{flag} {path}: {cause}") from cause


def _value(text: str) -> Any:
    try:
        return json.loads(text, object_hook=_with_numbers)
    except ValueError:
        return text


def _with_numbers(mapping: dict[str, Any]) -> dict[str | int, Any]:
    return {int(name) if name.isdecimal() else name: value for name, value in mapping.items()}
