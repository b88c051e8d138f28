"""`build_changes`: what options do to a sequence's logits, worked out once for all of its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from onnxgen.engine.sampling.bans import BadWords, repeating_tokens
from onnxgen.engine.sampling.custom import Row, SampledRow
from onnxgen.engine.sampling.dry import penalize_lengthening
from onnxgen.engine.sampling.edits import FORBIDDEN, Change, Edit, ban
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.penalties import penalize_answer, penalize_repetition


@dataclass(frozen=True, slots=True)
class Changes:
    """What options do to a sequence's logits.

    Attributes:
        before: Done in order, before a request's own processors: bias and penalties.
        after: Done in order, after them, so that nothing lifts a banned token again.
        forced: Tokens by their place in the answer.
    """

    before: Sequence[Change] = ()
    after: Sequence[Change] = ()
    forced: Mapping[int, int] = field(default_factory=dict[int, int])

    @property
    def is_none(self) -> bool:
        """Whether logits stay as they are, at every step."""
        return not (self.before or self.after or self.forced)


def build_changes(
    options: SamplingOptions, *, vocab_size: int, eos_ids: Sequence[int], unused_ids: Sequence[int] = ()
) -> Changes:
    """The changes that options ask for; most ask for none.

    Args:
        options: Of one sequence; the ids that they hold were checked.
        vocab_size: Width of the rows of logits that are changed.
        eos_ids: The tokens that ``min_length`` bans.
        unused_ids: Never chosen.
    """
    before: list[Change] = []
    if options.logit_bias:
        before.append(_bias(options))
    if options.repetition_penalty != 1:
        before.append(_repetition(options))
    if options.presence_penalty or options.frequency_penalty:
        before.append(_presence_and_frequency(options))
    if options.dry_multiplier:
        before.append(_dry(options, vocab_size))
    after: list[Change] = []
    if unused_ids:
        after.append(_forbid(unused_ids))
    if options.min_length and eos_ids:
        after.append(_min_length(options, eos_ids))
    if options.bad_words:
        after.append(_bad_words(options))
    if options.no_repeat_ngram_size:
        after.append(_no_repeat_ngram(options))
    return Changes(before, after, dict(options.forced_tokens))


def _bias(options: SamplingOptions) -> Change:
    tokens = np.array([token for token, _ in options.logit_bias], np.int64)
    biases = np.array([bias for _, bias in options.logit_bias], np.float32)
    return lambda row, _: Edit(tokens, row[tokens] + biases)


def _repetition(options: SamplingOptions) -> Change:
    window, penalty = options.repetition_window, options.repetition_penalty
    return lambda row, sequence: penalize_repetition(row, sequence.history[-window:], penalty)


def _presence_and_frequency(options: SamplingOptions) -> Change:
    presence, frequency = options.presence_penalty, options.frequency_penalty

    def change(row: Row, sequence: SampledRow) -> Edit:
        answer = sequence.history[sequence.num_tokens - sequence.num_new_tokens :]
        return penalize_answer(row, answer, presence=presence, frequency=frequency)

    return change


def _dry(options: SamplingOptions, vocab_size: int) -> Change:
    is_breaker = np.zeros(vocab_size, np.bool_)
    is_breaker[list(options.dry_breakers)] = True
    window = options.dry_window

    def change(row: Row, sequence: SampledRow) -> Edit | None:
        return penalize_lengthening(
            row,
            sequence.history[-window:],
            is_breaker,
            multiplier=options.dry_multiplier,
            base=options.dry_base,
            allowed_length=options.dry_allowed_length,
        )

    return change


def _forbid(tokens: Sequence[int]) -> Change:
    forbidden = np.array(tokens, np.int64)
    values = np.full(len(tokens), FORBIDDEN)
    return lambda _row, _sequence: Edit(forbidden, values)


def _min_length(options: SamplingOptions, eos_ids: Sequence[int]) -> Change:
    tokens, length = np.array(eos_ids, np.int64), options.min_length
    return lambda row, sequence: ban(row, tokens) if sequence.num_tokens < length else None


def _bad_words(options: SamplingOptions) -> Change:
    words = BadWords(options.bad_words)
    return lambda row, sequence: ban(row, words.banned(sequence.history))


def _no_repeat_ngram(options: SamplingOptions) -> Change:
    size = options.no_repeat_ngram_size
    return lambda row, sequence: ban(row, repeating_tokens(sequence.history, size))
