"""Model folders with a tiny decoder's real graph, as any runtime of such folders opens them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx

from tiny_decoders import Style, TinyDecoder, write_graph


def write_graph_folder(
    folder: Path,
    decoder: TinyDecoder,
    style: Style,
    *,
    edit: Callable[[onnx.ModelProto], None] | None = None,
    eos: int | None = None,
    pad: int = 0,
    **model: Any,
) -> Path:
    """Write ``model.onnx`` and ``genai_config.json``.

    Args:
        folder: Where to; made if needed.
        decoder: What the graph computes.
        style: How it is written down.
        edit: Changes the graph before it is written.
        eos: The end of a sequence; the last token of the vocabulary without it.
        pad: Padding.
        model: Further entries of the ``model`` section.
    """
    folder.mkdir(parents=True, exist_ok=True)
    s = decoder.sizes
    graph = write_graph(decoder, style)
    if edit is not None:
        edit(graph)
    onnx.save(graph, folder / "model.onnx")
    given = {value.name for value in graph.graph.input}
    inputs = {name: name for name in ("input_ids", "attention_mask", "position_ids") if name in given}
    document = {
        "model": {
            "type": "llama",
            "vocab_size": s.vocab,
            "context_length": s.context,
            "bos_token_id": 0,
            "eos_token_id": [s.vocab - 1 if eos is None else eos],
            "pad_token_id": pad,
            "decoder": {
                "filename": "model.onnx",
                "num_hidden_layers": s.layers,
                "num_attention_heads": s.heads,
                "num_key_value_heads": s.kv_heads,
                "head_size": s.head_dim,
                "hidden_size": s.hidden,
                "session_options": {"provider_options": []},
                "inputs": inputs
                | {
                    "past_key_names": "past_key_values.%d.key",
                    "past_value_names": "past_key_values.%d.value",
                },
                "outputs": {
                    "logits": "logits",
                    "present_key_names": "present.%d.key",
                    "present_value_names": "present.%d.value",
                },
            },
            **model,
        },
        "search": {},
    }
    (folder / "genai_config.json").write_text(json.dumps(document), encoding="utf-8")
    return folder
