"""A folder of an encoder of texts whose states are rows of a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tiny_tokenizer

DIM = 6
TABLE = np.random.default_rng(1).standard_normal((tiny_tokenizer.VOCAB_SIZE, DIM)).astype(np.float32)


def write_encoder(folder: Path, *, pooled: bool = False, extra: str | None = None, where: str = "") -> Path:
    """An encoder whose states are rows of a table: ``[batch, seq, dim]``, or the first token's ``[batch, dim]``."""
    (folder / where).mkdir(parents=True, exist_ok=True)
    tiny_tokenizer.write_tokenizer(folder)
    value = helper.make_tensor_value_info
    inputs = [value(name, TensorProto.INT64, ["b", "s"]) for name in ("input_ids", "attention_mask")]
    if extra is not None:
        inputs.append(value(extra, TensorProto.INT64, ["b", "s"]))
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"], axis=0)]
    output = value("last_hidden_state", TensorProto.FLOAT, ["b", "s", DIM])
    if pooled:
        nodes.append(
            helper.make_node("Gather", ["last_hidden_state", "zero"], ["sentence_embedding"], axis=1)
        )
        output = value("sentence_embedding", TensorProto.FLOAT, ["b", DIM])
    weights = [
        numpy_helper.from_array(TABLE, "table"),
        numpy_helper.from_array(np.array(0, np.int64), "zero"),
    ]
    graph = helper.make_graph(nodes, "encoder", inputs, [output], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, folder / where / "model.onnx")
    return folder
