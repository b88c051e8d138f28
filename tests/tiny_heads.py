"""Tiny heads that draft for a tiny decoder, as ONNX graphs, and the same arithmetic in numpy as their oracle."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnxgen.backends.base import AUX_HIDDEN_STATES, HIDDEN_STATES, DecoderModel
from tiny_decoders import FLOAT, Sizes, Style, TinyDecoder, decoder_model, write_graph


@dataclasses.dataclass
class TinyHead:
    """One decoder layer over ``fc([norm(embedding); norm(hidden + aux @ aux_fc)])``, as heads of the MTP kind have it.

    Args:
        sizes: Of the layer; ``vocab`` is the width of its logits.
        seed: Of its weights.
        ids: How many ids it looks up; None: as many as it has logits.
        aux: Width of hidden states of other layers that it adds; 0: it reads none.
    """

    sizes: Sizes
    seed: int
    ids: int | None = None
    aux: int = 0

    def __post_init__(self):
        self.decoder = TinyDecoder(self.sizes, self.seed)
        w, h, rng = self.decoder.weights, self.sizes.hidden, np.random.default_rng(self.seed + 1)
        if self.ids is not None:
            w["embed"] = rng.standard_normal((self.ids, h)).astype(np.float32)
        w["embed_norm"], w["hidden_norm"] = rng.uniform(0.5, 1.5, (2, h)).astype(np.float32)
        w["fc"] = (rng.standard_normal((2 * h, h)) * 0.3).astype(np.float32)
        w["aux_fc"] = (rng.standard_normal((self.aux, h)) * 0.3).astype(np.float32)

    def run(self, tokens, hidden=None, aux=None):
        """float64 logits ``[tokens, vocab]`` and hidden states ``[tokens, hidden]`` after each of the tokens."""
        w, n = {k: v.astype(np.float64) for k, v in self.decoder.weights.items()}, len(tokens)
        given = np.zeros((n, self.sizes.hidden)) if hidden is None else np.asarray(hidden, np.float64)
        if aux is not None:
            given = given + np.asarray(aux, np.float64) @ w["aux_fc"]

        def norm(x, g):
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g

        looked_up = norm(w["embed"][np.asarray(tokens)], w["embed_norm"])
        x = np.concatenate([looked_up, norm(given, w["hidden_norm"])], -1) @ w["fc"]
        # the rest is the decoder's, whose embeddings these are
        rest = dataclasses.replace(self.decoder, weights={**self.decoder.weights, "embed": x})
        rest.weights = {**self.decoder.weights, "embed": x}
        return rest.logits(range(n)), rest.hidden(range(n))

    def graph(self, style: Style) -> onnx.ModelProto:
        model = write_graph(self.decoder, style)
        graph, w, h = model.graph, self.decoder.weights, self.sizes.hidden
        lookup = next(node for node in graph.node if node.op_type == "Gather" and "embed" in node.input)
        x, lookup.output[0] = lookup.output[0], "embedded"
        rows, norm = ["batch", "seq", h], {"axis": -1, "epsilon": 1e-6, "stash_type": 1}
        graph.input.append(helper.make_tensor_value_info("hidden", FLOAT, rows))
        hidden, nodes = "hidden", []
        if self.aux:
            graph.input.append(helper.make_tensor_value_info("aux", FLOAT, ["batch", "seq", self.aux]))
            nodes.append(helper.make_node("MatMul", ["aux", "aux_fc"], ["aux_hidden"], "/aux"))
            nodes.append(helper.make_node("Add", ["hidden", "aux_hidden"], ["all_hidden"], "/all"))
            hidden = "all_hidden"
        for source, weight, target in (
            ("embedded", "embed_norm", "left"), (hidden, "hidden_norm", "right")
        ):  # fmt: skip
            nodes.append(
                helper.make_node(
                    "SimplifiedLayerNormalization", [source, weight], [target], f"/{target}", **norm
                )
            )
        nodes.append(helper.make_node("Concat", ["left", "right"], ["both"], "/both", axis=-1))
        nodes.append(helper.make_node("MatMul", ["both", "fc"], [x], "/fc"))
        names = ("embed_norm", "hidden_norm", "fc", *(["aux_fc"] if self.aux else []))
        graph.initializer.extend(numpy_helper.from_array(w[name], name) for name in names)
        at = list(graph.node).index(lookup) + 1
        everything = [*graph.node[:at], *nodes, *graph.node[at:]]
        del graph.node[:]
        graph.node.extend(everything)
        return model


def head_model(head: TinyHead, style: Style, path: Path, **overrides) -> DecoderModel:
    """Write a head's graph to ``path`` and describe it."""
    made = decoder_model(head.decoder, style, path)
    onnx.save(head.graph(style), path)
    roles = {HIDDEN_STATES: "hidden"} | ({AUX_HIDDEN_STATES: "aux"} if head.aux else {})
    values = {"inputs": {**made.inputs, **roles}, "input_vocab_size": head.ids}
    return dataclasses.replace(made, **(values | overrides))
