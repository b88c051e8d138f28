"""A scripted model over a small vocabulary that honours the whole contract, for tests without a model.

Its cache holds token ids in blocks, and its logits are a deterministic function of the whole sequence as
read back through the block table. So a mistake in block accounting above the seam (a wrong block, a
missing copy, a length off by one) changes the answer or is refused, as it would with a real model. With a
group of windows the ids are kept twice, and both copies must agree within the window.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from onnxgen.backends.adapters import Adapter
from onnxgen.backends.base import (
    EMBEDS_ROWS,
    HIDDEN_STATES,
    INPUTS_EMBEDS,
    NO_BLOCK,
    WINDOW_STEP_TOKENS,
    CacheGeometry,
    Capabilities,
    Float32Array,
    Int32Array,
    Int64Array,
    KVCache,
    Step,
    StepOutput,
)
from onnxgen.backends.check import check_ids, check_step
from onnxgen.backends.fake_cache import NEVER_WRITTEN, FakeCache
from onnxgen.backends.loaded_adapters import LoadedAdapters
from onnxgen.errors import BackendError, CapabilityError, ConfigError, StateError, StepError

_CONTRADICTION = -2
"""What a sequence has where the groups of blocks hold different tokens: its answer is another then."""
_SCRIPTED_LOGIT = 100.0
_MARK_SHIFT = 32


class FakeBackend:
    """A backend without a model.

    The next token after a prompt is what the script says; everywhere else the logits are a fixed function
    of the sequence, so that greedy answers are reproducible and differ between sequences.

    Under an adapter every token counts as another one, so that nothing is scripted, and what the cache holds of
    other adapters changes the answer.

    Args:
        vocab_size: Width of the logits.
        continuations: Prompt to the tokens that follow it. The longest prompt that fits wins.
        eos_token_id: Scripted after the end of a continuation; None leaves the choice to the hash.
        block_size: Positions of a cache block, which makes the backend paged. None: one slot a sequence.
        max_context: The longest sequence, in tokens.
        rewind: Whether ``context_lens`` may go back to any length. False acts like a recurrent model.
        hidden_size: Width of hidden states, and of embeddings in place of ids: one that is an id's counts as that id,
            any other as a token of its own. None: the model has neither.
        window: Positions that windowed layers see, if there are any: caches can then have a group for them.
        fail_steps: Numbers of the steps (0 is the first) that raise `BackendError` instead of answering,
            after scribbling over every position that the contract leaves to a failing step.
        fail_when: Asked with all tokens of each sequence of a step, new ones included: whether the step fails
            likewise for its sake, however often it is tried.
        adapters: Whether one adapter is applied to a whole step, or to each sequence its own.
        reads_hidden: Act like a head that drafts for a model: steps may give `HIDDEN_STATES` of ``hidden_size``, and a
            token beside some that are not all zeros counts as a token of its own (`token_beside`).

    Raises:
        ConfigError: Pages of a model that cannot rewind: no backend has them.

    Attributes:
        num_steps: Steps asked for so far, failed ones included.
        num_tokens: New tokens of all steps that succeeded.
        steps: The steps asked for, in order.
    """

    def __init__(
        self,
        vocab_size: int = 32,
        *,
        continuations: Mapping[Sequence[int], Sequence[int]] | None = None,
        eos_token_id: int | None = None,
        block_size: int | None = None,
        max_context: int = 1024,
        rewind: bool = True,
        hidden_size: int | None = None,
        window: int | None = None,
        fail_steps: Collection[int] = (),
        fail_when: Callable[[Sequence[int]], bool] | None = None,
        adapters: Literal["step", "sequence"] = "sequence",
        reads_hidden: bool = False,
    ) -> None:
        if block_size is not None and not rewind:
            raise ConfigError(
                f"block_size={block_size} and rewind=False go together in no backend: a recurrent state lies in one slot"
            )
        if reads_hidden and hidden_size is None:
            raise ConfigError("reads_hidden needs a hidden_size: what steps give must have a width")
        row_widths = {HIDDEN_STATES: hidden_size} if reads_hidden and hidden_size is not None else {}
        self._vocab_size = vocab_size
        self._script = sorted(
            ((tuple(k), tuple(v)) for k, v in (continuations or {}).items()), key=lambda kv: -len(kv[0])
        )
        self._eos_token_id = eos_token_id
        self._block_size = block_size
        self._hidden_size = hidden_size
        self._fail_steps, self._fail_when = frozenset(fail_steps), fail_when
        self._capabilities = Capabilities(
            ragged=True,
            paged=block_size is not None,
            rewind=rewind,
            copy_blocks=True,
            hidden_states=hidden_size is not None,
            max_context=max_context,
            batch_invariant=True,
            window=window,
            adapters=adapters,
            inputs=frozenset(row_widths)
            | (frozenset() if hidden_size is None else frozenset({INPUTS_EMBEDS, EMBEDS_ROWS})),
            embedding_size=hidden_size,
            row_widths=row_widths,
        )
        self._adapters = LoadedAdapters[int](_mark, lambda _: None)
        self._lock = threading.Lock()
        self._closed = False
        self.num_steps = 0
        self.num_tokens = 0
        self.steps: list[Step] = []

    @property
    def capabilities(self) -> Capabilities:
        """What callers may rely on."""
        return self._capabilities

    @property
    def vocab_size(self) -> int:
        """Width of the logits."""
        return self._vocab_size

    @property
    def adapters(self) -> LoadedAdapters[int]:
        """The adapters that steps may name; their content is of no matter, but for its digest."""
        return self._adapters

    def create_cache(self, *, num_seqs: int, num_tokens: int, window_group: bool = False) -> FakeCache:
        """Allocate room for ``num_seqs`` sequences of up to ``num_tokens`` tokens each.

        Raises:
            CapabilityError: ``num_tokens`` is more than the context.
            StateError: The backend was closed.
        """
        if self._closed:
            raise StateError("this backend was closed; make a new one")
        if num_tokens > self._capabilities.max_context:
            raise CapabilityError(
                f"asked for sequences of {num_tokens} tokens; the context is {self._capabilities.max_context}"
            )
        block_size = self._block_size or num_tokens
        blocks, window = -(-num_tokens // block_size), self._capabilities.window
        few, block_bytes = 0, block_size * np.dtype(np.int64).itemsize
        if window_group and window is not None:
            few = min(blocks, -(-(window + WINDOW_STEP_TOKENS) // block_size) + 1)
        geometry = CacheGeometry(
            num_seqs * blocks,
            block_size,
            window_blocks=num_seqs * few,
            block_bytes=block_bytes,
            window_block_bytes=block_bytes if few else 0,
        )
        return FakeCache(geometry, whole=not self._capabilities.rewind, owner=self)

    def execute(self, step: Step, cache: KVCache) -> StepOutput:
        """Run one step.

        Raises:
            StepError: The step breaks the contract, or reads positions that were never written.
            TokenIdError: A token id is outside the vocabulary.
            BackendError: The script says that this step fails.
            StateError: The backend or the cache was closed.
        """
        with self._lock:
            if self._closed:
                raise StateError("this backend was closed; make a new one")
            if not isinstance(cache, FakeCache) or cache.owner is not self:
                raise StepError("the cache was made by another backend")
            if cache.tokens is None:
                raise StateError("this cache was closed; make a new one")
            number, self.num_steps = self.num_steps, self.num_steps + 1
            self.steps.append(step)
            check_step(
                step,
                geometry=cache.geometry,
                capabilities=self._capabilities,
                vocab_size=self._vocab_size,
                adapters=self._adapters,
            )
            groups = (cache.tokens.copy(), cache.window_tokens.copy())
            for c in step.copies:
                cache.copy(c, groups[c.group])
            read = replace(step, token_ids=self._tokens_read(step))
            sequences = [self._sequence(read, i, *groups) for i in range(step.num_seqs)]
            why = self._reason_to_fail(number, sequences)
            if why is not None:
                if self._capabilities.rewind:
                    _scribble(step, step.block_table, cache.tokens)
                    if step.window_table is not None:
                        _scribble(step, step.window_table, cache.window_tokens)
                raise BackendError(why)
            cache.tokens[...], cache.window_tokens[...] = groups
            self.num_tokens += step.num_tokens
            return self._answer(step, sequences)

    def close(self) -> None:
        """Release the model. Calling it twice is harmless."""
        self._closed = True

    def _reason_to_fail(self, number: int, sequences: Sequence[Int64Array]) -> str | None:
        if number in self._fail_steps:
            return f"step {number} fails because the script says so"
        for i, sequence in enumerate(sequences):
            if self._fail_when is not None and self._fail_when(_unmarked(sequence)):
                return f"step {number} fails because the script says so of sequence {i}"
        return None

    def token_embeddings(self, token_ids: Int64Array) -> Float32Array:
        """What counts as these tokens, float32 ``[n, hidden]``. See `GivesEmbeddings`."""
        if self._hidden_size is None:
            raise CapabilityError("this scripted model has no embeddings; give it a hidden_size")
        check_ids(token_ids, self._vocab_size)
        rows = [_noise(np.array([i], np.int64), self._hidden_size, salt=2) for i in token_ids.tolist()]
        return np.array(rows, np.float32).reshape(-1, self._hidden_size)

    def _tokens_read(self, step: Step) -> Int64Array:
        """The step's tokens as the model reads them: where embeddings are given, the tokens that these count as."""
        if not step.inputs:
            return step.token_ids
        tokens = step.token_ids.copy()
        for name in self._capabilities.row_widths:
            for row, given in enumerate(step.inputs.get(name, ())):
                if given.any():
                    tokens[row] = self.token_beside(int(tokens[row]), given)
        if EMBEDS_ROWS not in step.inputs:
            return tokens
        known = self.token_embeddings(np.arange(self._vocab_size))
        for row, given in zip(step.inputs[EMBEDS_ROWS], step.inputs[INPUTS_EMBEDS], strict=True):
            same = np.flatnonzero((known == given).all(axis=1))
            foreign = self._vocab_size + zlib.crc32(given.tobytes()) % (1 << (_MARK_SHIFT - 1))
            tokens[row] = same[0] if same.size else foreign
        return tokens

    def token_beside(self, token: int, hidden: Float32Array) -> int:
        """What a token counts as beside hidden states that are not all zeros: for the oracle, a token of its own."""
        content = hidden.astype(np.float32).tobytes() + int(token).to_bytes(8, "little")
        return self._vocab_size + zlib.crc32(content) % (1 << (_MARK_SHIFT - 1))

    def _sequence(self, step: Step, i: int, tokens: Int64Array, window_tokens: Int64Array) -> Int64Array:
        """Write the new tokens of sequence ``i`` and read the whole sequence back, as all layers see it."""
        sequence = self._extend(step, step.block_table, i, tokens)
        if step.window_table is None or self._capabilities.window is None:
            return sequence
        first = max(int(step.context_lens[i]) - self._capabilities.window + 1, 0)
        return _agreed(sequence, self._extend(step, step.window_table, i, window_tokens, first), first)

    def _extend(
        self, step: Step, table: Int32Array, i: int, tokens: Int64Array, first: int = 0
    ) -> Int64Array:
        """Write the new tokens of sequence ``i`` and read it back from position ``first`` on."""
        block_size = tokens.shape[1]
        context_len = int(step.context_lens[i])
        start, end = int(step.cu_seqlens[i]), int(step.cu_seqlens[i + 1])
        blocks = table[i][table[i] != NO_BLOCK]
        at = np.arange(first, context_len + end - start)
        block, offset = table[i][at // block_size], at % block_size
        past = tokens[block[: context_len - first], offset[: context_len - first]]
        if (past == NEVER_WRITTEN).any():
            hole = int(np.argmax(past == NEVER_WRITTEN))
            raise StepError(
                f"sequence {i} has context_len {context_len}, but position {first + hole} was never written in "
                f"block {int(block[hole])}"
            )
        if not self._capabilities.rewind and context_len:
            written = tokens[blocks].ravel()
            length = int((written != NEVER_WRITTEN).sum())
            if length != context_len:
                raise StepError(
                    f"sequence {i} holds {length} tokens and cannot go back to {context_len}; "
                    f"only to 0 or {length}"
                )
        if not self._capabilities.rewind and not context_len:
            tokens[blocks] = NEVER_WRITTEN
        name = step.adapters[i] if step.adapters else None
        mark = 0 if name is None else self._adapters.bound(name)
        tokens[block[context_len - first :], offset[context_len - first :]] = step.token_ids[start:end] + mark
        return tokens[block, offset]

    def _answer(self, step: Step, sequences: list[Int64Array]) -> StepOutput:
        logits = np.empty((step.logits_rows.size, self._vocab_size), np.float32)
        hidden = np.empty((step.logits_rows.size, self._hidden_size or 0), np.float32)
        for out, row in enumerate(step.logits_rows.tolist()):
            i = int(np.searchsorted(step.cu_seqlens, row, side="right")) - 1
            prefix = sequences[i][: int(step.context_lens[i]) + row - int(step.cu_seqlens[i]) + 1]
            logits[out] = self._logits_after(prefix)
            hidden[out] = self.hidden_after(prefix)
        return StepOutput(
            logits if step.want_logits else logits[:0], hidden if step.want_hidden_states else None
        )

    def logits_after(
        self, sequence: Sequence[int] | npt.NDArray[np.integer[Any]], *, adapter: str | None = None
    ) -> Float32Array:
        """The logits after a whole sequence, float32 ``[vocab]``, under an adapter or none: the oracle for tests."""
        mark = 0 if adapter is None else self._adapters.bound(adapter)
        return self._logits_after(np.asarray(sequence, np.int64) + mark)

    def hidden_after(self, sequence: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Float32Array:
        """The last hidden state after a whole sequence, float32 ``[hidden]``: the oracle for tests."""
        return _noise(np.asarray(sequence, np.int64), self._hidden_size or 0, salt=1)

    def _logits_after(self, sequence: Int64Array) -> Float32Array:
        ids = tuple(int(t) for t in sequence)
        logits = _noise(np.array(ids, np.int64), self._vocab_size, salt=0)
        scripted = self._scripted(ids)
        if scripted is not None:
            logits[scripted] = _SCRIPTED_LOGIT
        return logits

    def _scripted(self, ids: tuple[int, ...]) -> int | None:
        for prompt, answer in self._script:
            said = ids[len(prompt) :]
            if ids[: len(prompt)] == prompt and len(ids) >= len(prompt) and answer[: len(said)] == said:
                return answer[len(said)] if len(said) < len(answer) else self._eos_token_id
        return None


def _noise(sequence: Int64Array, width: int, *, salt: int) -> Float32Array:
    seed = zlib.crc32(np.ascontiguousarray(sequence, np.int64).tobytes())
    return np.random.Generator(np.random.PCG64([seed, salt])).standard_normal(width, np.float32)


def _mark(adapter: Adapter) -> int:
    """What is added to tokens that are computed under an adapter."""
    return (1 + zlib.crc32(adapter.digest.encode()) % 0x7FFF_FFFE) << _MARK_SHIFT


def _unmarked(sequence: Int64Array) -> list[int]:
    return np.where(sequence < 0, sequence, sequence & ((1 << _MARK_SHIFT) - 1)).tolist()


def _agreed(sequence: Int64Array, near: Int64Array, first: int) -> Int64Array:
    """The sequence, with `_CONTRADICTION` where the window's tokens, from position ``first`` on, are others."""
    agreed = sequence.copy()
    agreed[first:][near != sequence[first:]] = _CONTRADICTION
    return agreed


def _scribble(step: Step, table: Int32Array, tokens: Int64Array) -> None:
    """Overwrite what a failing step may have touched: its sequences' positions from ``context_len`` on."""
    block_size = tokens.shape[1]
    for i, (context_len, query_len) in enumerate(zip(step.context_lens, step.query_lens, strict=True)):
        at = np.arange(context_len, context_len + query_len)
        tokens[table[i][at // block_size], at % block_size] = 0
