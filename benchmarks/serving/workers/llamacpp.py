"""llama.cpp through its C functions, in a loop like its server's.

A step is one batch: the next token of every sequence that decodes, then chunks of prompts in the order of arrival, up to
the budget. A sequence leaves when its answer is whole, and its slot then takes the request that waits longest; the slot
that already holds most of the prompt is taken, and only the rest is computed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.peers.workers.llamacpp import ALIGNMENT, load
from benchmarks.serving.scenario import Setup
from benchmarks.serving.workers.driving import serve_scenarios

_KERNEL_TOKENS = 512  # of a batch that it computes at once


class LlamaCpp:
    """A GGUF file."""

    def __init__(self, file: Path, threads: int) -> None:
        self._threads = threads
        self._c, self._log, self._model = load(file)
        self._vocab_size = self._c.llama_vocab_n_tokens(self._c.llama_model_get_vocab(self._model))
        self._context: Any = None
        self._setup: Setup | None = None
        self.open(Setup(max_seqs=1, max_tokens=2048))

    def open(self, setup: Setup) -> LlamaServer:
        if setup != self._setup:
            self._setup = None
            self._context = self._new_context(setup)
            self._setup = setup
        self._c.llama_memory_clear(self._c.llama_get_memory(self._context), True)
        return LlamaServer(self._c, self._context, self._batch, self._vocab_size, setup)

    def _new_context(self, setup: Setup) -> Any:
        if self._context is not None:
            self._c.llama_free(self._context)
            self._c.llama_batch_free(self._batch)
            self._context = None
        tokens = setup.max_tokens + -setup.max_tokens % ALIGNMENT
        params = self._c.llama_context_default_params()
        params.n_ctx, params.n_seq_max = setup.max_seqs * tokens, setup.max_seqs
        params.n_batch = setup.step_tokens
        params.n_ubatch = min(_KERNEL_TOKENS, setup.step_tokens)
        params.n_threads = params.n_threads_batch = self._threads
        params.kv_unified = False  # a cache for each sequence: attention looks at no others; faster here
        self._batch = self._c.llama_batch_init(setup.step_tokens, 0, 1)
        context = self._c.llama_init_from_model(self._model, params)
        if not context:
            raise RuntimeError(f"llama.cpp has no room for {setup.max_seqs} sequences of {tokens} tokens")
        return context


@dataclass
class _Slot:
    """A sequence of the cache, and the request that it answers, if any.

    Attributes:
        cached: Tokens in the cache.
        todo: Tokens that are known and not there yet: the rest of the prompt, or the last token of the answer.
        remaining: Tokens of the answer that are still to come.
    """

    sequence: int
    number: int | None = None
    cached: list[int] = field(default_factory=list)
    todo: list[int] = field(default_factory=list)
    remaining: int = 0
    decodes: bool = False


class LlamaServer:
    """Requests of one context."""

    def __init__(self, api: Any, context: Any, batch: Any, vocab_size: int, setup: Setup) -> None:
        self._c, self._context, self._batch, self._vocab_size = api, context, batch, vocab_size
        self._setup = setup
        self._slots = [_Slot(sequence) for sequence in range(setup.max_seqs)]
        self._running: list[_Slot] = []  # in the order of arrival
        self._queue: deque[tuple[int, list[int], int]] = deque()
        self._reused: dict[int, int] = {}

    @property
    def has_work(self) -> bool:
        return bool(self._queue or self._running)

    def submit(self, number: int, prompt: Sequence[int], new_tokens: int) -> None:
        self._queue.append((number, list(prompt), new_tokens))

    def step(self) -> list[tuple[int, int]]:
        self._fill_slots()
        taken = self._fill_batch()
        if self._c.llama_decode(self._context, self._batch):
            raise RuntimeError("llama.cpp failed to run a step")
        found: list[tuple[int, int]] = []
        row = 0
        for slot, count in taken:
            row += count
            slot.cached += slot.todo[:count]
            slot.todo = slot.todo[count:]
            if not slot.todo:
                assert slot.number is not None
                token = self._best(row - 1)
                found.append((slot.number, token))
                slot.todo, slot.decodes, slot.remaining = [token], True, slot.remaining - 1
                if not slot.remaining:
                    slot.number = None
                    self._running.remove(slot)
        return found

    def cached_tokens(self, number: int) -> int:
        return self._reused[number]

    def parts(self) -> Mapping[str, float]:
        return {}

    def _fill_slots(self) -> None:
        while self._queue and len(self._running) < len(self._slots):
            number, prompt, new_tokens = self._queue.popleft()
            idle = [slot for slot in self._slots if slot.number is None]
            reuse = self._setup.prefix_reuse is not False
            common = {slot.sequence: _common(slot.cached, prompt) if reuse else 0 for slot in idle}
            # what another slot holds stays there for others, where the choice is free
            slot = max(idle, key=lambda slot: (common[slot.sequence], -len(slot.cached)))
            kept = min(common[slot.sequence], len(prompt) - 1)
            memory = self._c.llama_get_memory(self._context)
            self._c.llama_memory_seq_rm(memory, slot.sequence, kept, -1)
            slot.number, slot.cached, slot.todo = number, prompt[:kept], prompt[kept:]
            slot.remaining, slot.decodes = new_tokens, False
            self._reused[number] = kept
            self._running.append(slot)

    def _fill_batch(self) -> list[tuple[_Slot, int]]:
        """Slots that take part, with the number of their tokens, in the order of the batch's rows."""
        taken: list[tuple[_Slot, int]] = []
        room = self._setup.step_tokens
        for slot in sorted(self._running, key=lambda slot: not slot.decodes):  # stable: arrival order stays
            count = min(room, len(slot.todo))
            if count:
                taken.append((slot, count))
                room -= count
        batch, row = self._batch, 0
        batch.n_tokens = sum(count for _, count in taken)
        for slot, count in taken:
            for offset in range(count):
                batch.token[row], batch.pos[row] = slot.todo[offset], len(slot.cached) + offset
                batch.logits[row] = offset == len(slot.todo) - 1
                batch.n_seq_id[row], batch.seq_id[row][0] = 1, slot.sequence
                row += 1
        return taken

    def _best(self, row: int) -> int:
        logits = self._c.llama_get_logits_ith(self._context, row)
        return int(np.ctypeslib.as_array(logits, shape=(self._vocab_size,)).argmax())


def _common(ours: Sequence[int], theirs: Sequence[int]) -> int:
    """Tokens at the beginning of both."""
    for count, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if one != other:
            return count
    return min(len(ours), len(theirs))


if __name__ == "__main__":
    serve_scenarios(LlamaCpp, ["llama-cpp-python"])
