"""`RowSampler`: rows of logits in, a token or an error for each, whoever is in the step.

What a row goes through::

    before     bias, penalties                                 changes
    custom     a request's own processors                      custom_rows
    after      bans, then a forced token                       changes
    mask       what a grammar lets follow                      graph.cpu.masked_rows
    choose     the best, a drawn one, or a request's sampler   graph.cpu.draws, custom_rows
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sampling.changes import Changes, build_changes
from onnxgen.engine.sampling.custom import Row, SampledRow
from onnxgen.engine.sampling.custom_rows import choose_by_samplers, run_processors
from onnxgen.engine.sampling.edits import BANNED, FORBIDDEN, apply
from onnxgen.engine.sampling.no_choice import no_choice
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.row_draws import draw_of, note_surprise
from onnxgen.engine.sampling.row_work import RowWork
from onnxgen.engine.sampling.state import RowState
from onnxgen.engine.sampling.steady_rows import SteadyRows
from onnxgen.errors import OnnxgenError, OptionError, TokenIdError
from onnxgen.foundations.reused_arrays import ReusedArrays
from onnxgen.graph.cpu.choosing_kernels import prepare_choosing
from onnxgen.graph.cpu.draws import Draw, draw_with_surprises
from onnxgen.graph.cpu.masked_rows import apply_mask

_KEPT_ROWS, _KEPT_STACKS = 64, 4
"""Copies of rows, and of several rows at once, whose memory is used again."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a token was drawn from.

    Attributes:
        row: Logits of all tokens after all changes, float32 ``[tokens]``, to be read only: a row of the model's
            logits where nothing changed it.
        draw: How the token was drawn. It takes the best where nothing was: of forced tokens, and where a request's own
            sampler chose.
    """

    row: Row
    draw: Draw


class RowSampler:
    """Chooses the next tokens of sequences that come and go.

    A row's token depends on that row's logits, history and options only: never on its neighbours. For one
    thread at a time. The first on a machine waits some seconds for the compiler.

    Args:
        eos_ids: The tokens that ``min_length`` bans.
        num_tokens: Ids from here on are padding of the vocabulary, and never chosen; None: there is none.
        unused_ids: Likewise, holes among the others.
    """

    def __init__(
        self, *, eos_ids: Sequence[int], num_tokens: int | None = None, unused_ids: Sequence[int] = ()
    ) -> None:
        prepare_choosing()
        self._eos_ids = tuple(eos_ids)
        self._num_tokens = num_tokens
        self._unused_ids = tuple(unused_ids)
        self._built: WeakKeyDictionary[RowState, tuple[SamplingOptions, Changes]] = WeakKeyDictionary()
        self._steady = SteadyRows()
        self._copies = ReusedArrays(keep=_KEPT_ROWS)
        self._stacks = ReusedArrays(keep=_KEPT_STACKS)

    def choose(self, logits: npt.NDArray[np.float32], rows: Sequence[SampledRow]) -> list[int | OnnxgenError]:
        """The next token of each sequence, or why it has none.

        Args:
            logits: float32 ``[rows, vocab]``; as they were, when this returns. Where they may be written, single
                logits have other values in between.
            rows: Whose they are ``[rows]``.

        Returns:
            In place of a token `LogitsProcessorError` where a request's own processor or sampler failed,
            `TokenIdError` where options hold an id that is no token, `OptionError` where they, or they and a mask, left
            no token to choose, and `BackendError` where the row has no finite maximum (a NaN came out of the model).
        """
        return self.choose_and_keep(logits, rows, keep=())[0]

    def choose_and_keep(
        self, logits: npt.NDArray[np.float32], rows: Sequence[SampledRow], *, keep: Collection[int]
    ) -> tuple[list[int | OnnxgenError], dict[int, Drawn]]:
        """As `choose`, and what the tokens of some rows were drawn from.

        Args:
            logits: As in `choose`.
            rows: As in `choose`.
            keep: Which rows.

        Returns:
            What `choose` returns, and by row what was asked for; without rows that got no token.
        """
        num_tokens = self._tokens_of(logits)
        if rows and not keep and (tokens := self._steady.tokens(logits, rows)) is not None:
            return list(tokens), {}
        works = [RowWork(sequence, own) for own, sequence in zip(logits, rows, strict=True)]
        try:
            self._process(works, copy=keep)
            self._draw(works, num_tokens)
            kept = {at: Drawn(works[at].row[:num_tokens], works[at].draw or _NOT_DRAWN) for at in keep}
        finally:
            for work in works:
                work.take_back()
        if works and not keep and all(work.is_plain for work in works):
            self._steady.remember(rows, num_tokens)
        chosen = [
            no_choice(own[:num_tokens], work.row[:num_tokens], work.sequence)
            if work.outcome is None
            else work.outcome
            for work, own in zip(works, logits, strict=True)
        ]
        return chosen, {at: drawn for at, drawn in kept.items() if isinstance(chosen[at], int)}

    def process(
        self, logits: npt.NDArray[np.float32], rows: Sequence[SampledRow]
    ) -> list[Row | OnnxgenError]:
        """The logits of all tokens after all changes, for callers that choose by themselves.

        Returns:
            For each row float32 ``[tokens]``, the caller's to read, or an error as in `choose`.
        """
        works = [RowWork(sequence, own) for own, sequence in zip(logits, rows, strict=True)]
        self._process(works, copy=range(len(works)))
        num_tokens = self._tokens_of(logits)
        return [
            work.outcome if isinstance(work.outcome, OnnxgenError) else work.row[:num_tokens]
            for work in works
        ]

    def _tokens_of(self, logits: npt.NDArray[np.float32]) -> int:
        width = logits.shape[1]
        return width if self._num_tokens is None else min(self._num_tokens, width)

    def _process(self, works: Sequence[RowWork], *, copy: Collection[int]) -> None:
        """Make all changes; the rows in ``copy`` stay what they become."""
        changed: list[tuple[RowWork, Changes]] = []
        # `no_choice` tells of it where it matters
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for at, work in enumerate(works):
                try:
                    changes = self._changes(work)
                except TokenIdError as error:
                    work.outcome = error
                    continue
                copied = at in copy or (work.sequence.mask is not None and work.sequence.sampler is not None)
                if changes.is_none and not work.sequence.processors:
                    work.is_plain = work.sequence.sampler is None
                    if copied and work.sequence.mask is not None:
                        self._copy(work)
                    continue
                work.forced = changes.forced.get(work.sequence.num_new_tokens)
                custom = bool(work.sequence.processors)
                if custom or copied or work.forced is not None or not work.row.flags.writeable:
                    self._copy(work)
                apply(changes.before, work.row, work.sequence, undo=work.undo)
                changed.append((work, changes))
            run_processors([work for work, _ in changed if work.sequence.processors], self._stacks)
            for work, changes in changed:
                if work.outcome is None:
                    apply(changes.after, work.row, work.sequence, undo=work.undo)
                    if work.forced is not None:
                        work.row.fill(FORBIDDEN)
                        work.row[work.forced] = 0
        for at, work in enumerate(works):
            self._mask(work, written=at in copy or work.sequence.sampler is not None)

    def _mask(self, work: RowWork, *, written: bool) -> None:
        """Rule tokens out by the row's mask: in the row itself where others look at it, else when a token is drawn."""
        mask = work.sequence.mask
        if mask is None or work.outcome is not None or work.forced is not None:
            return
        if written:
            apply_mask(work.row, mask)
        else:
            work.mask = mask

    def _changes(self, work: RowWork) -> Changes:
        """What a sequence's options do to its logits: worked out when it is first seen."""
        sequence, vocab_size = work.sequence, len(work.row)
        options = sequence.options
        built = self._built.get(sequence.row_state)
        if built is not None and built[0] is options:
            return built[1]
        options.check_ids(min(self._num_tokens or vocab_size, vocab_size))
        changes = build_changes(
            options,
            vocab_size=vocab_size,
            eos_ids=[token for token in self._eos_ids if token < vocab_size],
            unused_ids=self._unused_ids,
        )
        self._built[sequence.row_state] = options, changes
        return changes

    def _copy(self, work: RowWork) -> None:
        copy = self._copies.take(work.row.shape)
        copy[...] = work.row
        work.row, work.undo = copy, None

    def _draw(self, works: Sequence[RowWork], num_tokens: int) -> None:
        """Choose a token of each row that has a finite maximum."""
        drawn: list[RowWork] = []
        chosen: list[RowWork] = []
        for work in works:
            if work.outcome is not None:
                continue
            if work.sequence.sampler is None:
                work.draw = draw_of(work.sequence) if work.forced is None else Draw()
                drawn.append(work)
            elif np.isfinite(work.row[:num_tokens].max()):
                chosen.append(work)
        masks = [work.mask for work in drawn]
        tokens, surprises = draw_with_surprises(
            [work.row[:num_tokens] for work in drawn],
            [work.draw for work in drawn if work.draw],
            masks if any(mask is not None for mask in masks) else None,
        )
        for work, token, surprise in zip(drawn, tokens, surprises, strict=True):
            if token >= 0 and self._is_banned_under_mask(work, token):
                work.outcome = _nothing_but_banned(work.sequence)
            elif token >= 0:
                work.outcome = token
                if surprise is not None:
                    note_surprise(work.sequence, surprise)
        if chosen:
            choose_by_samplers(chosen, self._stacks, num_tokens=num_tokens)

    def _is_banned_under_mask(self, work: RowWork, token: int) -> bool:
        """Whether bans left nothing of what a mask allows. An end that comes too early is taken where nothing else may follow."""
        options = work.sequence.options
        return (
            work.sequence.mask is not None
            and bool(options.bad_words or options.no_repeat_ngram_size)
            and work.forced is None
            and bool(work.row[token] <= BANNED)
            and token not in self._eos_ids
        )


def _nothing_but_banned(sequence: SampledRow) -> OptionError:
    return OptionError(
        f"no token can be chosen after {sequence.num_tokens} tokens: bad_words or no_repeat_ngram_size ban all that the "
        "grammar lets follow there; leave them out where answers have a grammar"
    )


_NOT_DRAWN = Draw()
