"""Model folders whose logits are a row of a table, chosen by the last token: no cache, no layers, and known answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper


def write_bigram_folder(
    folder: Path,
    table: np.ndarray,
    *,
    context: int = 64,
    eos: tuple[int, ...] = (),
    pad: int = 0,
    **search: Any,
) -> Path:
    """A folder that any runtime of such opens; ``table`` is float32 or float16 ``[vocab, vocab]``."""
    folder.mkdir(parents=True, exist_ok=True)
    vocab = len(table)
    kind = helper.np_dtype_to_tensor_dtype(table.dtype)
    ids = helper.make_tensor_value_info("input_ids", onnx.TensorProto.INT64, ["batch", "sequence"])
    logits = helper.make_tensor_value_info("logits", kind, ["batch", "sequence", vocab])
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["logits"], axis=0)],
        "bigrams",
        [ids],
        [logits],
        [onnx.numpy_helper.from_array(table, "table")],
    )
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, folder / "model.onnx")
    document = {
        "model": {
            "type": "llama",
            "vocab_size": vocab,
            "context_length": context,
            "bos_token_id": 0,
            "eos_token_id": list(eos) or [vocab - 1],
            "pad_token_id": pad,
            "decoder": {
                "filename": "model.onnx",
                "num_hidden_layers": 0,
                "num_attention_heads": 1,
                "num_key_value_heads": 1,
                "head_size": 1,
                "hidden_size": 1,
                "session_options": {"provider_options": []},
                "inputs": {"input_ids": "input_ids"},
                "outputs": {"logits": "logits"},
            },
        },
        "search": search,
    }
    (folder / "genai_config.json").write_text(json.dumps(document), encoding="utf-8")
    return folder
