"""Tiny decoders whose embedding is a graph of its own, with room for features of images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tiny_decoders import Style, TinyDecoder, write_graph
from tiny_graph_folder import write_graph_folder


def split_embedding(
    decoder: TinyDecoder, style: Style, *, keeps_ids: bool
) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The graph that makes embeddings, and the decoder that reads them; the latter may keep an input of ids."""
    whole = write_graph(decoder, style)
    graph, width = whole.graph, decoder.sizes.hidden
    lookup = next(node for node in graph.node if node.op_type == "Gather" and "input_ids" in node.input)
    graph.node.remove(lookup)
    for node in graph.node:
        node.input[:] = ["inputs_embeds" if name == lookup.output[0] else name for name in node.input]
    table = next(t for t in graph.initializer if t.name == lookup.input[0])
    graph.initializer.remove(table)
    ids = next(value for value in graph.input if value.name == "input_ids")
    if not keeps_ids:
        graph.input.remove(ids)
    rows = ["batch", "seq", width]
    graph.input.append(helper.make_tensor_value_info("inputs_embeds", TensorProto.FLOAT, rows))
    front = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "input_ids"], ["looked_up"], "lookup", axis=0),
            helper.make_node("ReduceSum", ["image_features", "zero"], ["seen"], "see", keepdims=1),
            helper.make_node("Add", ["looked_up", "seen"], ["inputs_embeds"], "add"),
        ],
        "embedding",
        [ids, helper.make_tensor_value_info("image_features", TensorProto.FLOAT, ["images", width])],
        [helper.make_tensor_value_info("inputs_embeds", TensorProto.FLOAT, rows)],
        [
            numpy_helper.from_array(numpy_helper.to_array(table), "table"),
            numpy_helper.from_array(np.array([0], np.int64), "zero"),
        ],
    )
    return helper.make_model(front, opset_imports=whole.opset_import, ir_version=10), whole


def write_split_folder(
    folder: Path, decoder: TinyDecoder, style: Style, *, keeps_ids: bool = False, **model: Any
) -> Path:
    """A folder of both graphs."""
    front, whole = split_embedding(decoder, style, keeps_ids=keeps_ids)
    embedding = {
        "filename": "embedding.onnx",
        "inputs": {"input_ids": "input_ids", "image_features": "image_features"},
        "outputs": {"inputs_embeds": "inputs_embeds"},
    }
    write_graph_folder(folder, decoder, style, embedding=embedding, **model)
    onnx.save(front, folder / "embedding.onnx")
    onnx.save(whole, folder / "model.onnx")
    path = folder / "genai_config.json"
    document = json.loads(path.read_text())
    document["model"]["decoder"]["inputs"]["inputs_embeds"] = "inputs_embeds"
    path.write_text(json.dumps(document))
    return folder
