"""`Guesser`: from logits of a model that guesses to the next guess of each sequence, as its request would choose it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.rows import RowSampler
from onnxgen.engine.sampling.scoring import raw_logprobs
from onnxgen.engine.sampling.state import RowState
from onnxgen.engine.speculation.base import Wanted
from onnxgen.engine.speculation.draft_rows import DraftRow, guessing_options
from onnxgen.engine.tokens import TokenBuffer
from onnxgen.errors import OnnxgenError


@dataclass(slots=True)
class _Known:
    """What is remembered of a sequence between turns."""

    asked: SamplingOptions
    options: SamplingOptions
    row_state: RowState


class Guesser:
    """Chooses guesses. For one thread.

    Args:
        vocab_size: Width of the logits of the model that is guessed for.
        eos_ids: Nothing is guessed behind one of them.
        num_tokens: Ids from here on are padding of the vocabulary; None: there is none.
        unused_ids: Likewise, holes among the others.
        min_confidence: Where nothing is drawn: a token that the guessing model gives less than this probability is not
            guessed, nor what would follow it.
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        eos_ids: Collection[int],
        num_tokens: int | None,
        unused_ids: Sequence[int],
        min_confidence: float,
    ) -> None:
        self._vocab_size = vocab_size
        self._eos_ids = frozenset(eos_ids)
        self._log_confidence = math.log(min_confidence) if min_confidence else -math.inf
        self._sampler = RowSampler(eos_ids=sorted(eos_ids), num_tokens=num_tokens, unused_ids=unused_ids)
        self._known: dict[int, _Known] = {}

    def begin(self, wanted: Wanted, tokens: TokenBuffer, *, limit: int) -> DraftRow:
        """A row for a sequence.

        Args:
            wanted: What is asked for.
            tokens: The sequence's tokens, to which guesses are appended.
            limit: The most guesses.
        """
        known = self._known.get(wanted.key)
        asked = wanted.row.options
        if known is None or known.asked is not asked:
            options = guessing_options(asked, own_sampler=wanted.row.sampler is not None)
            known = self._known[wanted.key] = _Known(asked, options, RowState())
        row = DraftRow(
            tokens,
            num_known=len(wanted.history),
            num_answered=wanted.row.num_new_tokens,
            options=known.options,
            row_state=known.row_state,
            limit=limit,
        )
        if wanted.mask_source is not None:
            row.grammar = wanted.mask_source.fork()
            row.mask = np.empty(-(-self._vocab_size // 32), np.uint32)
        return row

    def guess(self, rows: Sequence[DraftRow], logits: npt.NDArray[np.float32]) -> list[bool]:
        """Guess the next token of each; which go on after that.

        Args:
            rows: The sequences.
            logits: float32 ``[rows, own vocab]``; ids that they lack are never guessed.
        """
        fitting = [i for i, row in enumerate(rows) if _may_be_masked(row)]
        going_on = [False] * len(rows)
        if not fitting:
            return going_on
        own = logits if len(fitting) == len(rows) else logits[fitting]
        own, asked = _as_wide(own, self._vocab_size), [rows[i] for i in fitting]
        drawn_rows = [at for at, row in enumerate(asked) if not row.options.greedy]
        tokens, drawn = self._sampler.choose_and_keep(own, asked, keep=drawn_rows)
        sure = self._sure_of([(own[at], token) for at, token in enumerate(tokens) if at not in drawn])
        for at, (row, token) in enumerate(zip(asked, tokens, strict=True)):
            if at not in drawn and not next(sure):
                continue
            assert isinstance(token, int)
            row.guess(token, drawn.get(at))
            going_on[fitting[at]] = len(row.guesses) < row.limit and token not in self._eos_ids
        return going_on

    def forget(self, key: int) -> None:
        """A sequence will not be asked for again."""
        self._known.pop(key, None)

    def clear(self) -> None:
        """Nor any other."""
        self._known.clear()

    def _sure_of(
        self, chosen: Sequence[tuple[npt.NDArray[np.float32], int | OnnxgenError]]
    ) -> Iterator[bool]:
        """Whether the guessing model itself, before all changes, gives tokens enough probability; False of what is none."""
        asked = [(row, token) for row, token in chosen if isinstance(token, int)]
        if self._log_confidence == -math.inf:
            are_sure = iter([True] * len(asked))
        else:
            scores = raw_logprobs([row for row, _ in asked], [token for _, token in asked], [0] * len(asked))
            are_sure = iter([s is not None and s.logprob >= self._log_confidence for s in scores])
        return iter([isinstance(token, int) and next(are_sure) for _, token in chosen])


def _may_be_masked(row: DraftRow) -> bool:
    """Work out which tokens may follow; False where that fails, so that no more is guessed."""
    try:
        row.fill_mask()
    except OnnxgenError:
        return False
    return True


def _as_wide(logits: npt.NDArray[np.float32], width: int) -> npt.NDArray[np.float32]:
    """Rows cut, or filled up with tokens that are never chosen, to float32 ``[rows, width]``."""
    own = logits.shape[1]
    if own == width:
        return logits
    fitted = np.full((len(logits), width), -np.inf, np.float32)
    fitted[:, : min(own, width)] = logits[:, :width]
    return fitted
