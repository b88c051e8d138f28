"""Every backend that the contract suite runs over, each with an oracle, and a way to run sequences on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from onnxgen.backends.base import BlockCopy, SequenceInput, StepOutput, pack_step
from onnxgen.backends.fake import FakeBackend
from onnxgen.backends.native.backend import NativeBackend
from onnxgen.backends.ort.backend import OrtBackend
from onnxgen.backends.ort.plan_kind import PlanKind
from onnxgen.foundations.runtime_config import RuntimeConfig
from tiny_decoders import BFLOAT16, FLOAT16, INT32, Sizes, Style, TinyDecoder, decoder_model

CONTEXT = 40


@dataclasses.dataclass(frozen=True)
class Case:
    """A backend, the logits it should give, and how near they must come (0: bit for bit)."""

    backend: FakeBackend | OrtBackend | NativeBackend
    # [tokens, vocab] after each token
    logits: Callable[[Sequence[int]], np.ndarray] = dataclasses.field(repr=False)
    tolerance: float
    rope_switch: int | None = None  # longer sequences must be computed anew
    # [tokens, hidden] behind the last norm
    hidden: Callable[[Sequence[int]], np.ndarray] | None = dataclasses.field(default=None, repr=False)
    # [vocab, hidden] that the first layer reads
    embeddings: np.ndarray | None = dataclasses.field(default=None, repr=False)

    def check(self, got: np.ndarray, tokens: Sequence[int], rows: Sequence[int], note: object = "") -> None:
        """Compare logits with the oracle's after the given positions of a sequence."""
        want = self.logits(tokens)[list(rows)]
        assert got.shape == want.shape
        assert got.dtype == np.float32
        error = float(np.abs(got - want).max()) if want.size else 0.0
        assert error <= self.tolerance, f"{error} > {self.tolerance} {note}"


def make_fake(seed: int, *, block_size: int | None = None, rewind: bool = True) -> Case:
    backend = FakeBackend(
        61, block_size=block_size, max_context=CONTEXT, rewind=rewind, hidden_size=5,
        continuations={(seed % 61,): [1, 2, 3]},
    )  # fmt: skip

    def logits(tokens: Sequence[int]) -> np.ndarray:
        return np.stack([backend.logits_after(tokens[: i + 1]) for i in range(len(tokens))])

    return Case(backend, logits, tolerance=0.0)


ORT_CASES: dict[str, tuple[Sizes, Style, PlanKind, float]] = {
    "packed": (Sizes(), Style(), PlanKind.PACKED, 1e-4),
    "packed-wide-matrix": (Sizes(), Style(packed_qkv=True, symbolic_head_dim=True), PlanKind.PACKED, 1e-4),
    "packed-positions": (
        Sizes(soft_cap=4.0),
        Style(rotary="positions", pruned_head="gather"),
        PlanKind.PACKED,
        1e-4,
    ),
    "packed-rotary-op": (
        Sizes(kv_heads=1, layers=3),
        Style(rotary="op", ids=INT32, logits=FLOAT16, hidden_states=True),
        PlanKind.PACKED,
        0.02,
    ),
    "packed-float16": (Sizes(), Style(cache=FLOAT16, value_info=False), PlanKind.PACKED, 0.05),
    "packed-two-ropes": (Sizes(rope_switch=11), Style(), PlanKind.PACKED, 1e-4),
    "batched": (Sizes(), Style(hidden_states=True), PlanKind.BATCHED, 1e-4),
    "batched-two-ropes": (
        Sizes(rope_switch=11),
        Style(rotary="op", pruned_head="slice"),
        PlanKind.BATCHED,
        1e-4,
    ),
    "batched-last-position": (Sizes(), Style(pruned_head="computed"), PlanKind.BATCHED, 1e-4),
    "batched-all-positions": (Sizes(), Style(odd_head=True), PlanKind.BATCHED, 1e-4),
    "dense-last-position": (Sizes(), Style("plain", pruned_head="computed"), PlanKind.DENSE, 1e-4),
    "dense-all-positions": (
        Sizes(),
        Style("plain", odd_head=True, hidden_states=True),
        PlanKind.DENSE,
        1e-4,
    ),
    "dense-attention-op": (Sizes(), Style(hidden_states=True), PlanKind.DENSE, 1e-4),
    "dense": (Sizes(), Style("plain", ids=INT32), PlanKind.DENSE, 1e-4),
    "dense-one-tensor": (Sizes(soft_cap=4.0), Style("plain", combined=True), PlanKind.DENSE, 1e-4),
    "dense-float16": (Sizes(), Style("plain", cache=FLOAT16), PlanKind.DENSE, 0.05),
    "dense-bfloat16": (Sizes(), Style("plain", cache=BFLOAT16), PlanKind.DENSE, 0.4),
    "dense-recurrent": (Sizes(conv_layers=(0,), layers=3), Style("plain"), PlanKind.DENSE, 1e-4),
}
NATIVE_CASES: dict[str, tuple[Sizes, Style, int, float]] = {
    # sizes, style, positions of a block, tolerance: keys and values are kept in 16 bits (8 where the name says bytes), whose
    # rounding sharp attention amplifies
    "native": (Sizes(), Style(), 16, 0.02),
    "native-wide-heads": (Sizes(heads=6, kv_heads=3, head_dim=32), Style(packed_qkv=True), 32, 0.02),
    "native-odd-heads": (Sizes(head_dim=24, heads=2, kv_heads=1), Style(packed_qkv=True), 48, 0.02),
    "native-positions": (Sizes(soft_cap=4.0), Style(rotary="positions", pruned_head="gather"), 16, 0.02),
    "native-rotary-op": (
        Sizes(kv_heads=1, layers=3),
        Style(rotary="op", ids=INT32, logits=FLOAT16, hidden_states=True),
        16,
        0.03,
    ),
    "native-float16": (Sizes(), Style(cache=FLOAT16, value_info=False, hidden_states=True), 64, 0.05),
    "native-bytes": (Sizes(heads=6, kv_heads=3, head_dim=32), Style(), 16, 0.6),
    "native-two-ropes": (Sizes(rope_switch=11), Style(pruned_head="slice"), 16, 0.02),
}
CASE_NAMES = ("fake-slots", "fake-paged", "fake-recurrent", *ORT_CASES, *NATIVE_CASES)


def make_case(name: str, folder: Path, seed: int) -> Case:
    """Make a backend by its name; its weights come from the seed."""
    if name.startswith("fake"):
        return make_fake(
            seed, block_size=4 if name == "fake-paged" else None, rewind=name != "fake-recurrent"
        )
    if name in NATIVE_CASES:
        return make_native(name, folder, seed)
    sizes, style, plan, tolerance = ORT_CASES[name]
    decoder = TinyDecoder(dataclasses.replace(sizes, context=CONTEXT), seed)
    model = decoder_model(decoder, style, folder / "model.onnx")
    backend = OrtBackend(model, RuntimeConfig(threads=1, cache_dir=folder), plan=plan)
    assert backend.plan_kind is plan
    return Case(
        backend, decoder.logits, tolerance, sizes.rope_switch, decoder.hidden, decoder.weights["embed"]
    )


def make_native(name: str, folder: Path, seed: int) -> Case:
    sizes, style, block_size, tolerance = NATIVE_CASES[name]
    decoder = TinyDecoder(dataclasses.replace(sizes, context=CONTEXT), seed)
    model = decoder_model(decoder, style, folder / "model.onnx")
    dtype = "int8" if "bytes" in name else "auto"
    config = RuntimeConfig(threads=2, cache_dir=folder, kv_cache_dtype=dtype)
    backend = NativeBackend(model, config, block_size=block_size)
    return Case(
        backend, decoder.logits, tolerance, sizes.rope_switch, decoder.hidden, decoder.weights["embed"]
    )


class Runner:
    """Sequences over one cache, with their blocks accounted for.

    A paged backend gets its blocks in a shuffled order.
    """

    def __init__(self, case: Case, *, num_seqs: int, num_tokens: int, seed: int = 0) -> None:
        self.case, self.backend = case, case.backend
        self.cache = self.backend.create_cache(num_seqs=num_seqs, num_tokens=num_tokens)
        geometry = self.cache.geometry
        self.block_size, self.paged = geometry.block_size, self.backend.capabilities.paged
        self.free = np.random.default_rng(seed).permutation(geometry.num_blocks).tolist()
        self.tokens: dict[str, list[int]] = {}
        self.blocks: dict[str, list[int]] = {}
        self.long: dict[str, bool] = {}

    def grow(self, name: str, length: int) -> list[int]:
        blocks = self.blocks.setdefault(name, [])
        while len(blocks) * self.block_size < length:
            blocks.append(self.free.pop())
        return blocks

    def part(self, name: str, new: Sequence[int], *, logits: str = "last") -> SequenceInput:
        past = len(self.tokens.setdefault(name, []))
        return SequenceInput(list(new), past, list(self.grow(name, past + len(new))), logits=logits)

    def step(
        self,
        parts: dict[str, Sequence[int]],
        *,
        embeds: dict[str, np.ndarray] | None = None,
        logits: str | dict[str, str] = "last",
        copies: Sequence[BlockCopy] = (),
        want_hidden_states: bool = False,
        want_logits: bool = True,
        check: bool = True,
    ) -> StepOutput:
        """Run new tokens of several sequences and compare the logits with the oracle's."""
        kinds = logits if isinstance(logits, dict) else dict.fromkeys(parts, logits)
        parts = {name: self._recomputed(name, new) for name, new in parts.items()}
        step = pack_step(
            [
                dataclasses.replace(self.part(n, new, logits=kinds[n]), embeds=(embeds or {}).get(n))
                for n, new in parts.items()
            ],
            copies=copies,
            want_hidden_states=want_hidden_states,
            want_logits=want_logits,
        )
        output = self.backend.execute(step, self.cache)
        at = 0
        for name, new in parts.items():
            before = len(self.tokens[name])
            self.tokens[name] += new
            total = len(self.tokens[name])
            rows = {"last": [total - 1], "all": list(range(before, total)), "none": []}[kinds[name]]
            if check and want_logits:
                note = f"sequence {name}, {before} + {len(new)} tokens"
                self.case.check(output.logits[at : at + len(rows)], self.tokens[name], rows, note)
            at += len(rows)
        assert output.logits.shape[0] == (at if want_logits else 0)
        return output

    def _recomputed(self, name: str, new: Sequence[int]) -> list[int]:
        """All tokens of a sequence that crosses a switch of rotary tables, as the contract asks for."""
        switch, past = self.case.rope_switch, self.tokens.setdefault(name, [])
        total = len(past) + len(new)
        if switch is not None and past and self.long.get(name, False) != (total > switch):
            new, self.tokens[name] = [*past, *new], []
        self.long[name] = switch is not None and total > switch
        return list(new)

    def rewind(self, name: str, length: int) -> None:
        del self.tokens[name][length:]

    def drop(self, name: str) -> None:
        """End a sequence; its blocks are used again."""
        self.free += self.blocks.pop(name)
        del self.tokens[name]
