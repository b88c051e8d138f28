"""Whether a step keeps the contract of `base`; every backend asks this before it does anything."""

from __future__ import annotations

import itertools
from collections.abc import Container

import numpy as np

from onnxgen.backends.base import (
    EMBEDS_ROWS,
    FULL,
    INPUTS_EMBEDS,
    NO_BLOCK,
    WINDOW,
    CacheGeometry,
    Capabilities,
    Step,
)
from onnxgen.errors import StepError, TokenIdError


def check_step(
    step: Step,
    *,
    geometry: CacheGeometry,
    capabilities: Capabilities,
    vocab_size: int,
    adapters: Container[str] = (),
) -> None:
    """Refuse a step that breaks the contract; every backend calls this first.

    Args:
        step: The step.
        geometry: Of the cache that it runs on.
        capabilities: What the backend can do.
        vocab_size: Token ids are below it.
        adapters: Names of the adapters that are loaded.

    Raises:
        StepError: Shapes, rows, blocks, lengths, copies, adapters or input names are wrong.
        TokenIdError: A token id is outside ``[0, vocab_size)``.
    """
    seqs, tokens = step.num_seqs, step.num_tokens
    if seqs == 0 or tokens == 0:
        raise StepError(f"a step needs sequences and tokens, got {seqs} sequences and {tokens} tokens")
    # lists, because most steps are short and every numpy call costs microseconds of a decode step
    ends: list[int] = step.cu_seqlens.tolist()
    if step.cu_seqlens.shape != (seqs + 1,) or ends[0] != 0 or ends[-1] != tokens:
        raise StepError(f"cu_seqlens must run from 0 to {tokens} in {seqs + 1} entries, got {ends}")
    query_lens = [end - start for start, end in itertools.pairwise(ends)]
    if min(query_lens) < 1:
        raise StepError(f"every sequence needs at least one new token, got {query_lens}")
    if step.token_ids.shape != (tokens,) or step.positions.shape != (tokens,):
        raise StepError(
            f"token_ids and positions must have {tokens} entries, got shapes {step.token_ids.shape} and "
            f"{step.positions.shape}"
        )
    if step.block_table.ndim != 2 or step.block_table.shape[0] != seqs:
        raise StepError(f"block_table must have {seqs} rows, got shape {step.block_table.shape}")
    _check_tokens(step, vocab_size)
    contexts: list[int] = step.context_lens.tolist()
    _check_positions(step, contexts, query_lens)
    rows: list[int] = step.logits_rows.tolist()
    if rows and (rows[0] < 0 or rows[-1] >= tokens or any(b <= a for a, b in itertools.pairwise(rows))):
        raise StepError(f"logits_rows must increase within [0, {tokens}), got {rows}")
    _check_blocks(step, contexts, query_lens, geometry, capabilities)
    _check_window(step, contexts, query_lens, geometry, capabilities)
    _check_copies(step, geometry, capabilities)
    if step.adapters:
        _check_adapters(step, capabilities, adapters)
    unknown = set(step.inputs) - capabilities.inputs
    if unknown:
        raise StepError(
            f"step inputs {sorted(unknown)} are not understood; known: {sorted(capabilities.inputs)}"
        )
    if step.inputs:
        _check_embeds(step, capabilities)
        _check_rows(step, capabilities)
    if step.want_hidden_states and not capabilities.hidden_states:
        raise StepError("hidden states were asked for, but this model does not give them")


def check_ids(token_ids: np.ndarray, vocab_size: int) -> None:
    """Refuse token ids outside the vocabulary.

    Raises:
        TokenIdError: Naming the first one.
    """
    bad = (token_ids < 0) | (token_ids >= vocab_size)
    if bad.any():
        at = int(np.argmax(bad))
        raise TokenIdError(f"token id {int(token_ids[at])} at {at} is outside [0, {vocab_size})")


def _check_embeds(step: Step, capabilities: Capabilities) -> None:
    embeds, rows = step.inputs.get(INPUTS_EMBEDS), step.inputs.get(EMBEDS_ROWS)
    if embeds is None and rows is None:
        return
    if embeds is None or rows is None:
        raise StepError(f"{INPUTS_EMBEDS} and {EMBEDS_ROWS} go together, got {sorted(step.inputs)}")
    if rows.ndim != 1 or rows.size == 0 or embeds.shape != (rows.size, capabilities.embedding_size):
        raise StepError(
            f"{INPUTS_EMBEDS} must have a row of {capabilities.embedding_size} for each of {EMBEDS_ROWS}, got shapes "
            f"{embeds.shape} and {rows.shape}"
        )
    if embeds.dtype != np.float32 or rows.dtype != np.int64:
        raise StepError(
            f"{INPUTS_EMBEDS} are {embeds.dtype} and {EMBEDS_ROWS} {rows.dtype}, not float32 and int64"
        )
    if rows[0] < 0 or rows[-1] >= step.num_tokens or (np.diff(rows) <= 0).any():
        raise StepError(f"{EMBEDS_ROWS} must increase within [0, {step.num_tokens}), got {rows.tolist()}")


def _check_rows(step: Step, capabilities: Capabilities) -> None:
    for name, width in capabilities.row_widths.items():
        given = step.inputs.get(name)
        if given is not None and (given.shape != (step.num_tokens, width) or given.dtype != np.float32):
            raise StepError(
                f"{name} must be float32 with a row of {width} for each of {step.num_tokens} tokens, got "
                f"{given.dtype} of shape {given.shape}"
            )


def _check_tokens(step: Step, vocab_size: int) -> None:
    ids: list[int] = step.token_ids.tolist()
    if min(ids) < 0 or max(ids) >= vocab_size:
        at = int(np.argmax((step.token_ids < 0) | (step.token_ids >= vocab_size)))
        raise TokenIdError(f"token id {int(step.token_ids[at])} at row {at} is outside [0, {vocab_size})")


def _check_positions(step: Step, contexts: list[int], query_lens: list[int]) -> None:
    if len(contexts) == step.num_tokens:
        right = step.positions.tolist() == contexts
    else:
        starts = np.repeat(step.context_lens - step.cu_seqlens[:-1], query_lens)
        right = np.array_equal(step.positions, starts + np.arange(step.num_tokens))
    if not right:
        raise StepError("positions must count on from each sequence's context_len")


def _check_blocks(
    step: Step,
    contexts: list[int],
    query_lens: list[int],
    geometry: CacheGeometry,
    capabilities: Capabilities,
) -> None:
    size, owner = geometry.block_size, dict[int, int]()
    table: list[list[int]] = step.block_table.tolist()
    for i, (context_len, query_len, row) in enumerate(zip(contexts, query_lens, table, strict=True)):
        blocks = row[: row.index(NO_BLOCK)] if NO_BLOCK in row else row
        out_of_range = [b for b in blocks if not 0 <= b < geometry.num_blocks]
        if out_of_range:
            raise StepError(f"sequence {i} names block {out_of_range[0]} of a pool of {geometry.num_blocks}")
        if not capabilities.paged and len(blocks) != 1:
            raise StepError(
                f"sequence {i} has {len(blocks)} blocks; this backend keeps a sequence in exactly one"
            )
        total = context_len + query_len
        if context_len < 0:
            raise StepError(f"sequence {i} has context_len {context_len}")
        if total > capabilities.max_context:
            raise StepError(
                f"sequence {i} would hold {total} tokens; the model's context is {capabilities.max_context}"
            )
        if total > len(blocks) * size:
            raise StepError(
                f"sequence {i} needs room for {total} tokens, its {len(blocks)} block(s) of {size} hold "
                f"{len(blocks) * size}"
            )
        # blocks that this step writes must have one owner; blocks before them may be shared
        for block in blocks[context_len // size : -(-total // size)]:
            if owner.setdefault(block, i) != i:
                raise StepError(f"block {block} would be written by sequences {owner[block]} and {i}")


def _check_window(
    step: Step,
    contexts: list[int],
    query_lens: list[int],
    geometry: CacheGeometry,
    capabilities: Capabilities,
) -> None:
    if step.window_table is None:
        if geometry.window_blocks:
            raise StepError("this cache has a group of windows: the step needs a window_table")
        return
    if not geometry.window_blocks or capabilities.window is None:
        raise StepError("the step has a window_table, but this cache has no group of windows")
    if step.window_table.ndim != 2 or step.window_table.shape[0] != step.num_seqs:
        raise StepError(f"window_table must have {step.num_seqs} rows, got shape {step.window_table.shape}")
    size, owner = geometry.block_size, dict[int, int]()
    table: list[list[int]] = step.window_table.tolist()
    for i, (context_len, query_len, row) in enumerate(zip(contexts, query_lens, table, strict=True)):
        first = max(context_len - capabilities.window + 1, 0) // size
        behind = -(-(context_len + query_len) // size)
        needed = row[first:behind]
        if len(needed) < behind - first or NO_BLOCK in needed:
            raise StepError(
                f"sequence {i} needs window blocks from number {first} to {behind - 1}, its table is {row}"
            )
        out_of_range = [b for b in needed if not 0 <= b < geometry.window_blocks]
        if out_of_range:
            raise StepError(
                f"sequence {i} names window block {out_of_range[0]} of a pool of {geometry.window_blocks}"
            )
        for block in row[context_len // size : behind]:
            if owner.setdefault(block, i) != i:
                raise StepError(f"window block {block} would be written by sequences {owner[block]} and {i}")


def _check_copies(step: Step, geometry: CacheGeometry, capabilities: Capabilities) -> None:
    if step.copies and not capabilities.copy_blocks:
        raise StepError("block copies were asked for, but this model's cache cannot be copied")
    for c in step.copies:
        if c.group not in (FULL, WINDOW):
            raise StepError(
                f"copy {c.source} -> {c.target} is of group {c.group}; there are {FULL} and {WINDOW}"
            )
        count = geometry.num_blocks if c.group == FULL else geometry.window_blocks
        if not (0 <= c.source < count and 0 <= c.target < count):
            raise StepError(f"copy {c.source} -> {c.target} leaves the pool of {count} blocks")
        if not 0 <= c.num_tokens <= geometry.block_size:
            raise StepError(f"copy of {c.num_tokens} tokens does not fit a block of {geometry.block_size}")


def _check_adapters(step: Step, capabilities: Capabilities, loaded: Container[str]) -> None:
    if len(step.adapters) != step.num_seqs:
        raise StepError(f"a step of {step.num_seqs} sequences has adapters for {len(step.adapters)}")
    named = dict.fromkeys(step.adapters)
    unknown = [name for name in named if name is not None and name not in loaded]
    if unknown:
        raise StepError(f"adapter {unknown[0]!r} is not loaded")
    if capabilities.adapters == "none" and named != {None: None}:
        raise StepError("adapters were asked for, but this backend applies none")
    if capabilities.adapters == "step" and len(named) > 1:
        raise StepError(f"this backend applies one adapter to a whole step, got {list(named)}")
