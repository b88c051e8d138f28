"""Export all-MiniLM-L6-v2 as people do (PyTorch's exporter, opset 14), keeping its weights in the checkpoint's own file.

Run where torch, transformers, onnx and safetensors are installed:

    python scripts/export_minilm.py FOLDER_OF_THE_CHECKPOINT

writes ``tests/fixtures/minilm``: the graph, whose external data are ranges of ``model.safetensors``, and what
transformers computes for three batches.
"""

import json
import struct
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, numpy_helper
from safetensors.numpy import load_file
from transformers import AutoModel, AutoTokenizer

OUTPUT = Path(__file__).parents[1] / "tests" / "fixtures" / "minilm"
BATCHES = (
    ["Hello world"],
    [
        "The quick brown fox jumps over the lazy dog.",
        "Short",
        "Two rows are longer than one, and one is the longest.",
    ],
    ["ONNX graphs are data; runtimes give them meaning."] * 2,
)
NAMES = ("input_ids", "attention_mask", "token_type_ids")


class LastHiddenState(torch.nn.Module):
    """The encoder with its mask written out, since the exporter does not trace transformers' own mask rightly."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, token_type_ids):
        states = self.model.embeddings(input_ids=input_ids, token_type_ids=token_type_ids)
        allowed = attention_mask[:, None, None, :].to(states.dtype)  # batch, 1, 1, seq
        mask = (1.0 - allowed) * torch.finfo(states.dtype).min
        return self.model.encoder(states, attention_mask=mask).last_hidden_state


def export(model, inputs):
    dynamic = {name: {0: "batch", 1: "sequence"} for name in (*NAMES, "last_hidden_state")}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            LastHiddenState(model).eval(),
            tuple(inputs[name] for name in NAMES),
            str(path),
            input_names=list(NAMES),
            output_names=["last_hidden_state"],
            dynamic_axes=dynamic,
            opset_version=14,
            dynamo=False,
            do_constant_folding=False,
        )
        return onnx.load(path)


def use_safetensors(graph, weights_file):
    """Replace every weight's data by its range of the checkpoint."""
    with weights_file.open("rb") as file:
        (header_bytes,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(header_bytes))
    arrays = load_file(weights_file)
    name_by_content = {
        (a.shape, a.astype(np.float32).tobytes()): n for n, a in arrays.items() if a.dtype == np.float32
    }
    for tensor in graph.initializer:
        name = name_by_content[tuple(tensor.dims), numpy_helper.to_array(tensor).tobytes()]
        begin, end = header[name]["data_offsets"]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        place = {"location": weights_file.name, "offset": 8 + header_bytes + begin, "length": end - begin}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))


def main():
    checkpoint = Path(sys.argv[1])
    model = AutoModel.from_pretrained(checkpoint, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    encoded = [tokenizer(batch, padding=True, return_tensors="pt") for batch in BATCHES]
    exported = export(model, encoded[1])
    use_safetensors(exported.graph, checkpoint / "model.safetensors")
    for node in exported.graph.node:  # source lines of the exporter's machine
        node.ClearField("doc_string")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT / "model.onnx").write_bytes(exported.SerializeToString())
    golden = {}
    for index, batch in enumerate(encoded):
        with torch.no_grad():
            golden[f"{index}.last_hidden_state"] = model(**batch).last_hidden_state.numpy()
        golden |= {f"{index}.{name}": batch[name].numpy() for name in NAMES}
    np.savez_compressed(OUTPUT / "golden.npz", **golden)


if __name__ == "__main__":
    main()
