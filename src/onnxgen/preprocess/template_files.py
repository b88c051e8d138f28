"""Where model folders keep their chat templates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from onnxgen.errors import ModelFileError
from onnxgen.foundations.files import is_present, read_text
from onnxgen.foundations.json_text import json_kind
from onnxgen.preprocess.tokenizer_settings import read_object

DEFAULT = "default"
"""Name of the template that is used when nothing asks for another."""

PLACES = (
    "chat_template.jinja",
    "chat_templates/*.jinja",
    "additional_chat_templates/*.jinja",
    "chat_template.json",
    "processor_config.json",
    "tokenizer_config.json",
)
"""Where templates are looked for, in this order; the first three count as one place."""


@dataclass(frozen=True, slots=True)
class TemplateText:
    """A template as found.

    Attributes:
        text: Source text of the template.
        source: File it was found in, with the key inside it where it is part of a JSON file.
    """

    text: str
    source: str


def find_templates(folder: Path) -> dict[str, TemplateText]:
    """Templates of a model folder by name, from the first place that has any; empty when none has.

    Raises:
        ModelFileError: A file that may hold templates is there and cannot be read.
    """
    found = _template_files(folder)
    for name in ("chat_template.json", "processor_config.json", "tokenizer_config.json"):
        if found:
            break
        path = folder / name
        found = _templates_of(read_object(path, error=ModelFileError).get("chat_template"), path)
    return found


def _template_files(folder: Path) -> dict[str, TemplateText]:
    files: dict[str, Path] = {}
    for name in ("additional_chat_templates", "chat_templates"):
        files.update({path.stem: path for path in sorted((folder / name).glob("*.jinja"))})
    main = folder / "chat_template.jinja"
    if is_present(main):
        files[DEFAULT] = main
    return {name: TemplateText(read_text(path), str(path)) for name, path in files.items()}


def _templates_of(value: Any, path: Path) -> dict[str, TemplateText]:
    if value is None:
        return {}
    if isinstance(value, str):
        return {DEFAULT: TemplateText(value, f"{path}: chat_template")}
    named: dict[Any, Any] = {}
    if isinstance(value, Mapping):
        named = dict(cast("Mapping[Any, Any]", value))
    elif isinstance(value, list):
        for entry in cast("list[Any]", value):
            if (
                not isinstance(entry, dict)
                or not {"name", "template"} <= cast("dict[str, Any]", entry).keys()
            ):
                raise ModelFileError(f"{path}: an entry of chat_template has no name or no template")
            named[entry["name"]] = entry["template"]
    else:
        raise ModelFileError(
            f"{path}: chat_template is {json_kind(value)}, expected text or a list of name and template"
        )
    for name, text in named.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise ModelFileError(f"{path}: chat_template {name!r} is not text")
    return {name: TemplateText(text, f"{path}: chat_template[{name}]") for name, text in named.items()}
