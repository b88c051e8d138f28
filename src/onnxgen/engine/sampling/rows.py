"""`RowSampler`: rows of logits in, a token or an error for each, whoever is in the step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sampling.custom import BatchLogitsProcessor, LogitsProcessor, Row, TokenArray
from onnxgen.engine.sampling.processors import (
    ban_eos,
    ban_repeated_ngrams,
    penalize_answer,
    penalize_repetition,
)
from onnxgen.engine.sampling.sampled_row import SampledRow
from onnxgen.errors import BackendError, LogitsProcessorError, OnnxgenError
from onnxgen.foundations.reused_arrays import ReusedArrays
from onnxgen.graph.cpu.draws import Draw, draw_tokens, prepare_draws

_KEPT_ROWS = 64
"""Rows with changes whose memory is used again."""


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
        prepare_draws()
        self._num_tokens = num_tokens
        self._unused_ids = np.array(sorted(unused_ids), np.int64)
        self._eos_ids = tuple(eos_ids)
        self._changed = ReusedArrays(keep=_KEPT_ROWS)

    def choose(self, logits: npt.NDArray[np.float32], rows: Sequence[SampledRow]) -> list[int | OnnxgenError]:
        """The next token of each sequence, or why it has none.

        Args:
            logits: float32 ``[rows, vocab]``; not changed.
            rows: Whose they are ``[rows]``.

        Returns:
            In place of a token `LogitsProcessorError` where a processor failed, and `BackendError` where the
            row has no finite maximum (a NaN came out of the model).
        """
        chosen: list[int | OnnxgenError] = [0] * len(rows)
        processed: list[Row] = []
        places: list[int] = []
        for place, (own, row) in enumerate(zip(logits, rows, strict=True)):
            try:
                processed.append(self._process(own, row))
            except LogitsProcessorError as error:
                chosen[place] = error
            else:
                places.append(place)
        tokens = draw_tokens(processed, [_draw_of(rows[place]) for place in places])
        for place, own, token in zip(places, processed, tokens, strict=True):
            chosen[place] = token if token >= 0 else _no_choice(own, rows[place])
        return chosen

    def _process(self, logits: Row, row: SampledRow) -> Row:
        """The logits with all changes made; themselves if there are none."""
        options = row.options
        early = row.num_tokens < options.min_length
        looks_back = (
            options.repetition_penalty != 1
            or options.presence_penalty
            or options.frequency_penalty
            or options.no_repeat_ngram_size
        )
        if not (early or looks_back or row.processors):
            return logits
        changed = self._changed.take(logits.shape)
        changed[...] = logits
        if options.repetition_penalty != 1:
            penalize_repetition(changed, row.history, options.repetition_penalty)
        if options.presence_penalty or options.frequency_penalty:
            penalize_answer(
                changed,
                row.history[row.num_tokens - row.num_new_tokens :],
                presence=options.presence_penalty,
                frequency=options.frequency_penalty,
            )
        for processor in row.processors:
            _call(processor, row.history, changed)
        # bans last, so that nothing lifts a banned token again
        if early:
            ban_eos(changed, self._eos_ids)
        if options.no_repeat_ngram_size:
            ban_repeated_ngrams(changed, row.history, options.no_repeat_ngram_size)
        return changed


def _call(processor: LogitsProcessor | BatchLogitsProcessor, history: TokenArray, logits: Row) -> None:
    history = history.view()
    history.flags.writeable = False
    try:
        returned: object = (
            processor(history, logits)
            if callable(processor)
            else processor.process_rows([history], logits[None])
        )
    except Exception as cause:
        raise LogitsProcessorError(
            f"logits processor {processor!r} raised {type(cause).__name__} after {len(history)} tokens: {cause}"
        ) from cause
    if returned is not None:
        raise LogitsProcessorError(
            f"logits processor {processor!r} returned {type(returned).__name__}; it must change the row that it is "
            "given in place and return None"
        )


def _draw_of(row: SampledRow) -> Draw:
    options = row.options
    assert options.seed is not None
    return Draw(
        options.temperature, options.top_k, options.top_p, options.seed, options.stream, row.num_tokens
    )


def _no_choice(logits: Row, row: SampledRow) -> OnnxgenError:
    token = int(logits.argmax())  # the first maximum, or the first NaN
    best = logits[token]
    if row.processors:
        return LogitsProcessorError(
            f"the best logit is {best} (token {token}) after {row.num_tokens} tokens; a logits processor left no "
            f"token to choose, or the model is numerically broken on this backend: {list(row.processors)!r:.200}"
        )
    return BackendError(
        f"the model returned {best} as the best logit (token {token}) after {row.num_tokens} tokens; "
        "it is numerically broken on this backend"
    )
