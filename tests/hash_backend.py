"""A backend whose logits depend on every token that its cache holds, so that any mistake in caching shows."""

from __future__ import annotations

import hashlib

import numpy as np

from onnxgen.backends.base import CacheGeometry, Capabilities, Step, StepOutput
from onnxgen.backends.block_content import check_block, check_written, join_parts, split_parts
from onnxgen.backends.check import check_step
from onnxgen.backends.loaded_adapters import LoadedAdapters
from onnxgen.errors import BackendError, CapabilityError


class HashCache:
    def __init__(self, geometry: CacheGeometry) -> None:
        self.geometry = geometry
        self.tokens = np.full((geometry.num_blocks, geometry.block_size), -1, np.int64)
        self.long = np.zeros((geometry.num_blocks, geometry.block_size), bool)
        self.recurrent_length = np.zeros(geometry.num_blocks, np.int64)
        self.closed = 0

    @property
    def num_bytes(self) -> int:
        return int(self.tokens.nbytes)

    def export_block(self, block, num_tokens, *, group=0):
        check_block(self.geometry, block, num_tokens, group=group)
        check_written(block, num_tokens, written=int((self.tokens[block] >= 0).sum()))
        return join_parts(self._parts(block, num_tokens), num_tokens=num_tokens)

    def import_block(self, block, content, num_tokens, *, group=0):
        check_block(self.geometry, block, num_tokens, group=group)
        split_parts(content, self._parts(block, num_tokens), num_tokens=num_tokens)

    def _parts(self, block, num_tokens):
        assert not self.closed
        return [
            self.tokens[block, :num_tokens],
            self.long[block, :num_tokens],
            self.recurrent_length[block : block + 1],
        ]

    def close(self) -> None:
        self.closed += 1


class HashBackend:
    """Logits are a pure function of the sequence (and of the rotary side that its keys were computed on).

    Args:
        vocab: Width of the logits.
        block_size: None for one contiguous slot per sequence.
        rewind: False makes it behave as a recurrent model.
        rope_switch: As `DecoderModel.rope_switch_length`.
        max_cache_tokens: Larger caches (per sequence) are refused.
    """

    def __init__(
        self,
        vocab=50,
        *,
        max_context=64,
        block_size=None,
        rewind=True,
        rope_switch=None,
        max_cache_tokens=None,
        favourite=None,
    ):
        self.adapters = LoadedAdapters(lambda adapter: None, lambda loaded: None)
        self.vocab_size = vocab
        self.capabilities = Capabilities(
            ragged=True,
            paged=block_size is not None,
            rewind=rewind,
            copy_blocks=False,
            hidden_states=False,
            max_context=max_context,
        )
        self.block_size, self.rope_switch, self.max_cache_tokens = block_size, rope_switch, max_cache_tokens
        self.favourite = favourite
        self.steps: list[list[int]] = []
        self.wanted: list[int] = []
        self.caches: list[HashCache] = []
        self.fail_at: set[int] = set()
        self.closed = 0

    def create_cache(self, *, num_seqs, num_tokens, window_group=False):
        if num_tokens > self.capabilities.max_context:
            raise CapabilityError(f"{num_tokens} > {self.capabilities.max_context}")
        if self.max_cache_tokens is not None and num_tokens > self.max_cache_tokens:
            raise BackendError(f"no memory for {num_tokens} tokens")
        if self.block_size is None:
            geometry = CacheGeometry(num_seqs, num_tokens, block_bytes=9 * num_tokens + 8)
        else:
            count = num_seqs * -(-num_tokens // self.block_size)
            geometry = CacheGeometry(count, self.block_size, block_bytes=9 * self.block_size + 8)
        self.caches.append(HashCache(geometry))
        return self.caches[-1]

    def execute(self, step: Step, cache: HashCache) -> StepOutput:
        assert not cache.closed
        check_step(step, geometry=cache.geometry, capabilities=self.capabilities, vocab_size=self.vocab_size)
        if len(self.steps) in self.fail_at:
            self.fail_at.discard(len(self.steps))
            raise BackendError("this step was told to fail")
        self.steps.append(step.query_lens.tolist())
        self.wanted.append(len(step.logits_rows))
        totals = step.context_lens + step.query_lens
        long = [self.rope_switch is not None and int(t) > self.rope_switch for t in totals]
        assert len(set(long)) == 1, "one step mixes both sides of the rotary switch"
        rows = []
        for i in range(step.num_seqs):
            blocks = [int(b) for b in step.block_table[i] if b >= 0]
            start, past = int(step.cu_seqlens[i]), int(step.context_lens[i])
            if not self.capabilities.rewind:
                assert past in (0, cache.recurrent_length[blocks[0]]), "a recurrent state was rewound"
            for j in range(int(step.query_lens[i])):
                at = past + j
                assert step.positions[start + j] == at
                block = blocks[at // cache.geometry.block_size]
                cache.tokens[block, at % cache.geometry.block_size] = step.token_ids[start + j]
                cache.long[block, at % cache.geometry.block_size] = long[i]
                cache.recurrent_length[blocks[0]] = at + 1
                if start + j in step.logits_rows:
                    held, sides = cache.tokens[blocks].ravel()[: at + 1], cache.long[blocks].ravel()[: at + 1]
                    rows.append(self.logits(held, sides))
        return StepOutput(np.stack(rows) if rows else np.zeros((0, self.vocab_size), np.float32))

    def logits(self, tokens, sides=None) -> np.ndarray:
        """What the logits after ``tokens`` must be, float32 ``[vocab]``."""
        tokens = np.asarray(tokens, np.int64)
        if sides is None:
            long = self.rope_switch is not None and len(tokens) > self.rope_switch
            sides = np.full(len(tokens), long)
        digest = hashlib.sha256(tokens.tobytes() + np.asarray(sides, bool).tobytes()).digest()
        rng = np.random.default_rng(int.from_bytes(digest[:8], "little"))
        row = rng.normal(size=self.vocab_size).astype(np.float32)
        if self.favourite is not None:
            row[self.favourite(len(tokens))] += 20
        return row

    def greedy(self, prompt, count):
        """The greedy continuation, computed without any cache."""
        tokens = list(prompt)
        for _ in range(count):
            tokens.append(int(np.argmax(self.logits(tokens))))
        return tokens[len(prompt) :]

    def close(self):
        self.closed += 1
