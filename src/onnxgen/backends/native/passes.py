"""A step cut into passes of a bounded number of tokens, each with the header that kernels read.

    step    a0 ... a999 | b0 | c0 c1        pass 0: a0 ... a255, pass 1: a256 ..., pass 3: a768 ... a999, b0, c0 c1

Where the cuts are changes nothing: every token's result is its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from onnxgen.backends.base import (
    AUX_HIDDEN_STATES,
    EMBEDS_ROWS,
    FULL,
    HIDDEN_STATES,
    INPUTS_EMBEDS,
    WINDOW,
    Step,
)
from onnxgen.backends.native.contents import Span
from onnxgen.graph.cpu.compiled.header import HEADER_WORDS, Header
from onnxgen.graph.cpu.step.table import StepShape


@dataclass(frozen=True, slots=True)
class Pass:
    """Some of a step's tokens.

    Attributes:
        header: int64 words for kernels, `onnxgen.graph.cpu.compiled.header`.
        shape: What parts depend on.
        first_row: Index among the step's wanted rows of the first one here.
        arrays: What the header points to.
    """

    header: np.ndarray
    shape: StepShape
    first_row: int
    arrays: tuple[np.ndarray, ...]


@dataclass(frozen=True, slots=True)
class RotaryRows:
    """Which row of the rotary tables a position uses.

    Attributes:
        switch_length: Longer sequences use the long table; None: there is none.
        long_start: Where the long table begins, behind the short one.
    """

    switch_length: int | None = None
    long_start: int = 0


def cut_step(
    step: Step,
    groups: Sequence[Sequence[Span]],
    *,
    most_tokens: int,
    block_size: int,
    stored_size: int,
    rotary: RotaryRows,
) -> Iterator[Pass]:
    """The passes of a step, in order.

    Args:
        step: A step that was checked.
        groups: Its sequences, for each group of blocks.
        most_tokens: The most tokens of a pass.
        block_size: Positions of a block as the step counts them.
        stored_size: Positions of a block in memory.
        rotary: How positions find their rows of the rotary tables.
    """
    rotated = _rotated(step, groups[FULL], rotary)
    # Without a group of windows, kernels of windowed layers find the same blocks as the others.
    tables = (step.block_table, step.block_table if step.window_table is None else step.window_table)
    slots = [_slots(step, *both, block_size, stored_size) for both in zip(groups, tables, strict=False)]
    given, embeds = step.inputs.get(EMBEDS_ROWS, _NO_ROWS), step.inputs.get(INPUTS_EMBEDS, _NO_EMBEDS)
    states = {word: step.inputs[name] for name, word in _ROW_INPUTS.items() if name in step.inputs}
    if step.num_tokens <= most_tokens:
        whole = (
            step.token_ids, rotated, step.cu_seqlens, step.context_lens, step.logits_rows,
            tables[FULL], slots[FULL], tables[WINDOW], slots[-1], given, embeds,
        )  # fmt: skip
        yield _with_rows(_pass(whole, first_row=0, stored_size=stored_size), states)
        return
    owners = np.repeat(np.arange(step.num_seqs), step.cu_seqlens[1:] - step.cu_seqlens[:-1])
    for start in range(0, step.num_tokens, most_tokens):
        end = min(start + most_tokens, step.num_tokens)
        first, last = int(owners[start]), int(owners[end - 1]) + 1
        contexts = step.context_lens[first:last].copy()
        contexts[0] += start - int(step.cu_seqlens[first])
        low, high = np.searchsorted(step.logits_rows, (start, end)).tolist()
        from_given, to_given = np.searchsorted(given, (start, end)).tolist()
        arrays = (
            step.token_ids[start:end], rotated[start:end],
            np.clip(step.cu_seqlens[first : last + 1], start, end) - start, contexts,
            step.logits_rows[low:high] - start, tables[FULL][first:last], slots[FULL][start:end],
            tables[WINDOW][first:last], slots[-1][start:end],
            given[from_given:to_given] - start, embeds[from_given:to_given],
        )  # fmt: skip
        own = _pass(arrays, first_row=low, stored_size=stored_size)
        yield _with_rows(own, {word: rows[start:end] for word, rows in states.items()})


def embedding_pass(token_ids: np.ndarray) -> Pass:
    """A pass of which only the embeddings of its tokens are wanted."""
    words = [0] * HEADER_WORDS
    words[Header.TOKENS], words[Header.TOKEN_IDS] = token_ids.size, token_ids.ctypes.data
    return Pass(np.array(words, np.int64), StepShape(tokens=token_ids.size, rows=0), 0, (token_ids,))


def with_adapters(own: Pass, adapters: np.ndarray) -> Pass:
    """The pass, which also says the adapter of each of its tokens, int32 ``[tokens]``, -1 for none."""
    held = np.ascontiguousarray(adapters, np.int32)
    wanted = held[own.arrays[_ADDRESSES.index(Header.LOGITS_ROWS)]]
    own.header[Header.ADAPTERS], own.header[Header.WANTED_ADAPTERS] = held.ctypes.data, wanted.ctypes.data
    return replace(own, arrays=(*own.arrays, held, wanted))


def _with_rows(own: Pass, states: Mapping[Header, np.ndarray]) -> Pass:
    """The pass, which also has rows for its tokens, float32 ``[tokens, width]`` each."""
    if not states:
        return own
    held = {word: np.ascontiguousarray(rows, np.float32) for word, rows in states.items()}
    for word, rows in held.items():
        own.header[word] = rows.ctypes.data
    return replace(own, arrays=(*own.arrays, *held.values()))


def _slots(
    step: Step, spans: Sequence[Span], table: np.ndarray, block_size: int, stored_size: int
) -> np.ndarray:
    """Where each token's key and value go, int64 ``[tokens]``."""
    if step.num_tokens <= _FEW_TOKENS:  # numpy costs a decode step of a small model several percent
        slots = [
            span.blocks[position // block_size] * stored_size + position % block_size
            for span in spans
            for position in range(span.context_len, span.total)
        ]
        return np.array(slots, np.int64)
    lengths = step.cu_seqlens[1:] - step.cu_seqlens[:-1]
    blocks = table[np.repeat(np.arange(step.num_seqs), lengths), step.positions // block_size]
    return blocks.astype(np.int64) * stored_size + step.positions % block_size


def _rotated(step: Step, spans: Sequence[Span], rotary: RotaryRows) -> np.ndarray:
    """Which row of the rotary tables each token uses, int64 ``[tokens]``."""
    if rotary.switch_length is None:
        return step.positions
    starts = [rotary.long_start if span.total > rotary.switch_length else 0 for span in spans]
    return step.positions + np.repeat(starts, [span.total - span.context_len for span in spans])


_FEW_TOKENS = 32
_ROW_INPUTS = MappingProxyType(
    {HIDDEN_STATES: Header.HIDDEN_STATES, AUX_HIDDEN_STATES: Header.AUX_HIDDEN_STATES}
)
_ADDRESSES = (
    Header.TOKEN_IDS,
    Header.POSITIONS,
    Header.CU_SEQLENS,
    Header.CONTEXT_LENS,
    Header.LOGITS_ROWS,
    Header.BLOCK_TABLE,
    Header.SLOTS,
    Header.WINDOW_TABLE,
    Header.WINDOW_SLOTS,
    Header.GIVEN_ROWS,
    Header.GIVEN_EMBEDS,
)
_TYPES = (
    np.int64, np.int64, np.int32, np.int32, np.int64, np.int32, np.int64, np.int32, np.int64, np.int64, np.float32,
)  # fmt: skip
_NO_ROWS, _NO_EMBEDS = np.empty(0, np.int64), np.empty((0, 0), np.float32)


def _pass(arrays: tuple[np.ndarray, ...], *, first_row: int, stored_size: int) -> Pass:
    held = tuple(np.ascontiguousarray(a, kind) for a, kind in zip(arrays, _TYPES, strict=True))
    tokens, rows, given = held[0].size, held[4].size, held[9].size
    words = [0] * HEADER_WORDS
    words[Header.TOKENS], words[Header.SEQS], words[Header.ROWS] = tokens, held[3].size, rows
    words[Header.GIVEN] = given
    for word, array in zip(_ADDRESSES, held, strict=True):
        words[word] = array.ctypes.data
    words[Header.BLOCK_TABLE_WIDTH], words[Header.WINDOW_TABLE_WIDTH] = held[5].shape[1], held[7].shape[1]
    words[Header.BLOCK_SIZE] = stored_size
    return Pass(np.array(words, np.int64), StepShape(tokens=tokens, rows=rows, given=given), first_row, held)
