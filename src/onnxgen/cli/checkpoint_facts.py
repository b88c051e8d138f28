"""What ``show`` says of a checkpoint: a GGUF file or a Hugging Face folder."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onnxgen.cli.facts import Facts
from onnxgen.foundations.disk import size_on_disk
from onnxgen.preprocess.gguf_vocabulary import TEMPLATE_KEY

_LAYER = re.compile(r"^model\.layers\.\d+\.(.+?)(\.weight)?$")
_CONFIG_KEYS = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "max_position_embeddings",
    "sliding_window",
    "rope_theta",
    "rope_scaling",
    "tie_word_embeddings",
    "bos_token_id",
    "eos_token_id",
)


def checkpoint_facts(path: Path) -> Facts:
    """Facts of a checkpoint.

    Raises:
        CheckpointError: It cannot be read.
    """
    from onnxgen.builder.sources import open_source

    source = open_source(path)
    try:
        config = source.config
        formats: dict[str, Counter[str]] = {}
        for name in sorted(source.names):
            match = _LAYER.match(name)
            kind = match[1] if match else name.removesuffix(".weight")
            formats.setdefault(kind, Counter())[source.stored_type(name)] += 1
        parameters = sum(math.prod(source.shape(name)) for name in source.names)
        return {
            "kind": "Hugging Face folder" if source.metadata is None else "GGUF file",
            "path": str(source.path.resolve()),
            "size_bytes": size_on_disk(path),
            "architecture": ", ".join(config.get("architectures") or ["?"]),
            "parameters": parameters,
            "config": {key: config[key] for key in _CONFIG_KEYS if config.get(key) is not None},
            "tensors": {
                kind: ", ".join(f"{count} x {how}" for how, count in counts.most_common())
                for kind, counts in formats.items()
            },
            "chat_template": _has_template(path, source.metadata),
        }
    finally:
        source.close()


def _has_template(path: Path, metadata: Mapping[str, Any] | None) -> bool:
    if metadata is not None:
        return TEMPLATE_KEY in metadata
    from onnxgen.preprocess.chat_template import ChatTemplate

    return ChatTemplate.find(path) is not None
