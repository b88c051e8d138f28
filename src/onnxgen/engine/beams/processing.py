"""`BeamProcessing`: what penalties, bans and other groups do to the rows that beams are ranked by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onnxgen.engine.beams.candidates import RankedRow, Row, log_sum_exp
from onnxgen.engine.beams.options import BeamRules
from onnxgen.engine.sampling.changes import build_changes
from onnxgen.engine.sampling.custom import BatchLogitsProcessor, LogitsProcessor, TokenArray
from onnxgen.engine.sampling.edits import FORBIDDEN
from onnxgen.engine.sampling.no_choice import no_choice
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.rows import RowSampler
from onnxgen.engine.sampling.state import RowState
from onnxgen.errors import OnnxgenError, OptionError

Processor = LogitsProcessor | BatchLogitsProcessor


@dataclass(frozen=True, slots=True)
class _BeamRow:
    """A beam, as the pipeline of changes sees a sequence."""

    options: SamplingOptions
    history: TokenArray
    num_new_tokens: int
    row_state: RowState
    processors: Sequence[Processor]
    sampler: None = None
    mask: None = None

    @property
    def num_tokens(self) -> int:
        return len(self.history)


class BeamProcessing:
    """Makes what beams are ranked by of their logits.

    Args:
        sampling: Penalties and bans; it must be greedy.
        rules: Whether logits are changed, or log probabilities.
        vocab_size: Width of the logits.
        eos_ids: The tokens that ``min_length`` bans.
        num_tokens: Ids from here on are padding of the vocabulary; None: there is none.
        unused_ids: Likewise, holes among the others.
        processors: Called for each beam.

    Raises:
        OptionError: Tokens would be drawn, which beams do not do.
        TokenIdError: Options hold an id that is no token.
    """

    def __init__(
        self,
        sampling: SamplingOptions,
        rules: BeamRules,
        *,
        vocab_size: int,
        eos_ids: Sequence[int],
        num_tokens: int | None = None,
        unused_ids: Sequence[int] = (),
        processors: Sequence[Processor] = (),
    ) -> None:
        if not sampling.greedy:
            raise OptionError(
                f"beams take the best continuations and draw none, but temperature={sampling.temperature:g} was asked "
                "for; leave out the options of drawing, or the beams"
            )
        self._options = sampling.with_seed()
        self._state = RowState()
        self._processors = tuple(processors)
        self._num_tokens = vocab_size if num_tokens is None else min(num_tokens, vocab_size)
        self._rules = rules
        sampling.check_ids(self._num_tokens)
        changes = build_changes(sampling, vocab_size=vocab_size, eos_ids=eos_ids, unused_ids=unused_ids)
        self._changes: RowSampler | None = None
        if processors or not changes.is_none:
            self._changes = RowSampler(eos_ids=eos_ids, num_tokens=num_tokens, unused_ids=unused_ids)

    def rank(
        self,
        logits: npt.NDArray[np.float32],
        *,
        histories: Sequence[TokenArray],
        num_new_tokens: int,
        taken: Mapping[int, float],
    ) -> list[RankedRow]:
        """What the continuations of some beams are ranked by.

        Args:
            logits: float32 ``[beams, vocab]``; not changed.
            histories: Tokens of each beam, prompt included.
            num_new_tokens: How many of them were generated.
            taken: What is taken from log probabilities for the sake of diversity, by token.

        Raises:
            BackendError: The model gave NaN or +inf.
            LogitsProcessorError: A processor failed, or wrote NaN or +inf.
            OptionError: A penalty made a logit infinite.
        """
        if self._changes is None or self._rules.processed == "logits":
            rows = self._process(logits, histories, num_new_tokens)
            return [RankedRow(_less(row, taken), log_sum_exp(row)) for row in rows]
        logprobs = np.empty_like(logits)
        for own, row in zip(logprobs, logits, strict=True):
            total = log_sum_exp(row[: self._num_tokens])
            if total == -math.inf:  # nothing is allowed, so nothing is after the changes
                own.fill(FORBIDDEN)
                continue
            np.subtract(row, np.float32(total), out=own)
            own[:] = _less(own, taken)
        return [RankedRow(row, 0.0) for row in self._process(logprobs, histories, num_new_tokens)]

    def _process(
        self, values: npt.NDArray[np.float32], histories: Sequence[TokenArray], num_new_tokens: int
    ) -> list[Row]:
        if self._changes is None:
            return [row[: self._num_tokens] for row in values]
        beams = [
            _BeamRow(self._options, history, num_new_tokens, self._state, self._processors)
            for history in histories
        ]
        rows: list[Row] = []
        for own, row, beam in zip(values, self._changes.process(values, beams), beams, strict=True):
            if isinstance(row, OnnxgenError):
                raise row
            if not row.max() < math.inf:  # -inf is fine: that beam has no continuation
                raise no_choice(own[: self._num_tokens], row, beam)
            rows.append(row)
        return rows


def _less(row: Row, taken: Mapping[int, float]) -> Row:
    """A row with something taken from some of its values; itself where nothing is."""
    if not taken:
        return row
    less = row.copy()
    less[list(taken)] -= np.array(list(taken.values()), np.float32)
    return less
