"""Makes the tokenizer files of a model folder from the metadata of a GGUF file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onnxgen.errors import TokenizerError
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.preprocess.gguf_documents import DOCUMENTS, TokenizerDocument
from onnxgen.preprocess.gguf_vocabulary import TEMPLATE_KEY, require

_CONFIG_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "mask_token")


def write_tokenizer_files(metadata: Mapping[str, Any], folder: Path) -> None:
    """Write ``tokenizer.json``, ``tokenizer_config.json`` and the chat templates into a folder.

    Ids equal those of the tokenizer that the model was trained with.

    Args:
        metadata: All keys and values of the GGUF file; arrays are lists or NumPy arrays.
        folder: Where the files go; it is there already.

    Raises:
        TokenizerError: A key is missing, or the kind of tokenizer or pre-tokenizer is not known; the
            message lists those that are.
    """
    kind = require(metadata, "tokenizer.ggml.model")
    if kind not in DOCUMENTS:
        raise TokenizerError(
            f"the GGUF file has a tokenizer of kind {kind!r}; known are {', '.join(sorted(DOCUMENTS))}"
            f"{did_you_mean(str(kind), DOCUMENTS)}"
        )
    document = DOCUMENTS[kind](metadata)
    text = json.dumps(document.content, ensure_ascii=False, separators=(",", ":"))
    _check_loads(text, kind)
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    templates = _templates(metadata)
    config = _config(metadata, document)
    if "default" in templates:
        # Runtimes that do not know chat_template.jinja look for the template here.
        config["chat_template"] = templates["default"]
        (folder / "chat_template.jinja").write_text(templates.pop("default"), encoding="utf-8", newline="")
    (folder / "tokenizer_config.json").write_text(
        json.dumps(config, ensure_ascii=False, indent=2) + "\n", encoding="utf-8"
    )
    for name, template in templates.items():
        path = folder / "chat_templates" / f"{name}.jinja"
        path.parent.mkdir(exist_ok=True)
        path.write_text(template, encoding="utf-8", newline="")


def _config(metadata: Mapping[str, Any], document: TokenizerDocument) -> dict[str, Any]:
    vocabulary = document.vocabulary
    processor = json.dumps(document.content["post_processor"])
    context = metadata.get(f"{metadata.get('general.architecture')}.context_length")
    config: dict[str, Any] = {
        "tokenizer_class": document.tokenizer_class,
        "clean_up_tokenization_spaces": False,
        **({} if context is None else {"model_max_length": int(context)}),
    }
    for name in _CONFIG_NAMES:
        text = vocabulary.text(name)
        if text is not None:
            config[name] = text
    for key, name in (("add_bos_token", "bos_token"), ("add_eos_token", "eos_token")):
        text = vocabulary.text(name)
        config[key] = text is not None and json.dumps(text) in processor
    return config


def _templates(metadata: Mapping[str, Any]) -> dict[str, str]:
    templates: dict[str, str] = {}
    for key, value in metadata.items():
        if key == TEMPLATE_KEY:
            templates["default"] = str(value)
        elif key.startswith(f"{TEMPLATE_KEY}."):
            name = key.removeprefix(f"{TEMPLATE_KEY}.")
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
                raise TokenizerError(f"GGUF key {key!r}: {name!r} can't be the name of a file")
            templates[name] = str(value)
    return templates


def _check_loads(text: str, kind: str) -> None:
    import tokenizers

    try:
        tokenizers.Tokenizer.from_str(text)
    except Exception as cause:
        raise TokenizerError(f"the GGUF file's {kind!r} tokenizer contradicts itself: {cause}") from cause
