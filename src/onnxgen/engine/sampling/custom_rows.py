"""A request's own processors and samplers, for all rows of a step: those that share one are given to it together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from onnxgen.engine.sampling.custom import BatchLogitsProcessor, LogitsProcessor, Rows, Sampler
from onnxgen.engine.sampling.custom_calls import call_batch_processor, call_processor, call_sampler
from onnxgen.engine.sampling.edits import FORBIDDEN
from onnxgen.engine.sampling.row_work import RowWork
from onnxgen.errors import LogitsProcessorError
from onnxgen.foundations.reused_arrays import ReusedArrays

_Shared = TypeVar("_Shared")


def run_processors(works: Sequence[RowWork], arrays: ReusedArrays) -> None:
    """Let rows' own processors change them, each row's in their order.

    Args:
        works: Rows that are copies. One whose processor fails gets the error as its outcome.
        arrays: Where memory of several rows comes from.
    """
    for place in range(max((len(work.sequence.processors) for work in works), default=0)):
        running = [work for work in works if work.outcome is None and place < len(work.sequence.processors)]
        for processor, group in _by_shared(running, lambda work: work.sequence.processors[place]):  # noqa: B023
            if isinstance(processor, BatchLogitsProcessor):
                _process_together(processor, group, arrays)
            else:
                _process_each(processor, group)


def choose_by_samplers(works: Iterable[RowWork], arrays: ReusedArrays, *, num_tokens: int) -> None:
    """Let rows' own samplers choose their tokens.

    Args:
        works: Rows that have one. Each gets its outcome.
        arrays: Where memory of several rows comes from.
        num_tokens: Ids from here on are no tokens.
    """
    for sampler, group in _by_shared(works, lambda work: work.sequence.sampler):
        assert sampler is not None
        _choose_together(sampler, group, arrays, num_tokens)


def _by_shared(
    works: Iterable[RowWork], shared: Callable[[RowWork], _Shared]
) -> Iterable[tuple[_Shared, list[RowWork]]]:
    """Rows in groups that share an object, in the order in which the groups begin."""
    groups: dict[int, tuple[_Shared, list[RowWork]]] = {}
    for work in works:
        own = shared(work)
        groups.setdefault(id(own), (own, []))[1].append(work)
    return groups.values()


def _process_each(processor: LogitsProcessor, group: Sequence[RowWork]) -> None:
    for work in group:
        try:
            call_processor(processor, work.sequence, work.row)
        except LogitsProcessorError as error:
            work.outcome = error


def _process_together(
    processor: BatchLogitsProcessor, group: Sequence[RowWork], arrays: ReusedArrays
) -> None:
    logits = _stacked(group, arrays)
    try:
        call_batch_processor(processor, [work.sequence for work in group], logits)
    except LogitsProcessorError as error:
        if len(group) == 1:
            group[0].outcome = error
            return
        for work in group:
            _process_together(processor, [work], arrays)
    else:
        for work, row in zip(group, logits, strict=True):
            work.row = row


def _choose_together(
    sampler: Sampler, group: Sequence[RowWork], arrays: ReusedArrays, num_tokens: int
) -> None:
    logits = _stacked(group, arrays)
    logits[:, num_tokens:] = FORBIDDEN
    try:
        tokens = call_sampler(sampler, [work.sequence for work in group], logits, num_tokens=num_tokens)
    except LogitsProcessorError as error:
        if len(group) == 1:
            group[0].outcome = error
            return
        for work in group:
            _choose_together(sampler, [work], arrays, num_tokens)
    else:
        for work, token in zip(group, tokens, strict=True):
            work.outcome = token


def _stacked(group: Sequence[RowWork], arrays: ReusedArrays) -> Rows:
    """A copy of rows, float32 ``[rows, vocab]``."""
    return np.stack([work.row for work in group], out=arrays.take((len(group), len(group[0].row))))
