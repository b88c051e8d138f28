"""What ``show`` says of a model folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxgen.builder.formats import ZeroPoints
from onnxgen.cli.facts import Facts
from onnxgen.cli.graph_facts import graph_facts
from onnxgen.foundations.disk import size_on_disk
from onnxgen.metadata.manifest import read_manifest

if TYPE_CHECKING:
    from onnxgen.foundations.runtime_config import RuntimeConfig
    from onnxgen.metadata.model_spec import ModelSpec
    from onnxgen.preprocess.chat_template import ChatTemplate

_PROBE = "zxq-probe"
SLOW_ZERO_POINTS = (
    "float zero points take ONNX Runtime's slow path, or with onnxgen a product and a correction at about "
    "two thirds of the speed of symmetric blocks; --requantize makes those, and loses quality"
)


def model_facts(folder: Path, config: RuntimeConfig) -> Facts:
    """Facts of a model folder, and which backend would run it with a configuration.

    Raises:
        ModelFileError: The folder's metadata, graph or tokenizer is missing or wrong.
    """
    from onnxgen.metadata import load_model_spec
    from onnxgen.preprocess.chat_template import ChatTemplate

    spec = load_model_spec(folder)
    template = ChatTemplate.find(spec.tokenizer_dir)
    graph = graph_facts(spec.decoder.path)
    return {
        "kind": "model folder",
        "path": str(folder.resolve()),
        "size_bytes": size_on_disk(folder),
        "metadata": spec.source.name,
        "type": spec.model_type,
        "context_length": spec.context_length,
        "vocabulary": spec.vocab_size,
        "layers": spec.decoder.num_layers,
        "required_capabilities": list(spec.required_capabilities),
        "special_tokens": _special_tokens(spec),
        "search_defaults": _search_defaults(spec),
        "providers": [provider.name for provider in spec.decoder.providers],
        "chat_template": None if template is None else template_facts(template),
        "graph": graph,
        "backend": _backend(spec, config),
        "build": _manifest(folder),
        "notes": _notes(graph),
    }


def _backend(spec: ModelSpec, config: RuntimeConfig) -> Facts:
    from onnxgen.backends import choose_backend

    choice = choose_backend(spec.decoder, config)
    return {"name": choice.name, "reason": choice.reason}


def template_facts(template: ChatTemplate) -> Facts:
    """Where a chat template is, and what it does with what conversations may hold."""
    return {
        "source": template.source,
        "system_message": _renders(template, [{"role": "system", "content": _PROBE}, _user()]),
        "tools": _renders(template, [_user()], tools=[_tool()]),
        "tool_results": _renders(template, [_user(), _call(), {"role": "tool", "content": _PROBE}]),
    }


def _renders(
    template: ChatTemplate, messages: list[dict[str, Any]], *, tools: list[dict[str, Any]] | None = None
) -> bool:
    """Whether what is probed for reaches the prompt."""
    from onnxgen.errors import ChatTemplateError

    try:
        return _PROBE in template.render(messages, tools=tools)
    except ChatTemplateError:
        return False


def _user() -> dict[str, Any]:
    return {"role": "user", "content": "Hello"}


def _call() -> dict[str, Any]:
    function = {"name": "look", "arguments": {}}
    call = {"type": "function", "id": "call00000", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def _tool() -> dict[str, Any]:
    parameters = {"type": "object", "properties": {}}
    function = {"name": _PROBE, "description": "A probe", "parameters": parameters}
    return {"type": "function", "function": function}


def _special_tokens(spec: ModelSpec) -> dict[str, str]:
    from onnxgen.preprocess.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_folder(spec.tokenizer_dir)
    found: dict[str, str] = {}
    for field in dataclasses.fields(spec.tokens):
        value = getattr(spec.tokens, field.name)
        ids = value if isinstance(value, tuple) else () if value is None else (value,)
        if ids:
            found[field.name] = ", ".join(f"{token} {tokenizer.id_to_token(token) or '?'}" for token in ids)
    return found


def _search_defaults(spec: ModelSpec) -> dict[str, Any]:
    """What differs from what every folder has."""
    search = spec.search
    return {
        field.name: getattr(search, field.name)
        for field in dataclasses.fields(search)
        if getattr(search, field.name) != field.default
    }


def _manifest(folder: Path) -> Mapping[str, Any] | None:
    manifest = read_manifest(folder)
    return {key: value for key, value in manifest.items() if key != "files"} or None


def _notes(graph: Facts) -> list[str]:
    slow = [kind for kind, formats in graph["matrices"].items() if ZeroPoints.FLOAT.value in formats]
    return [f"{', '.join(slow)}: {SLOW_ZERO_POINTS}"] if slow else []
