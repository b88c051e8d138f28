"""`Rounds`: tokens in rounds of a guess and a check, handed out one by one.

::

    sequence   [ t0 t1 t2 ]
    guessed               [ g0 g1 g2 ]           by an n-gram index or a smaller model
    run                   [ g0 g1 g2 ]           in one step: logits after t2, g0, g1 and g2
    chosen                [ g0 g1 x  ]           as they would be without a guess; x is not g2, so what is behind it is void
    handed out            [ g0 ] [ g1 ] [ x ]    one by each call; x is run together with the next guess

Guesses of an n-gram index are checked by choosing from the model's logits as ever, with the same random numbers: so tokens
are those of a generator that does not guess. Random numbers of tokens that are never handed out are given back.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from onnxgen.engine.batch import Batch
from onnxgen.errors import OnnxgenError
from onnxgen.facade.og_sampling import OgSampler
from onnxgen.facade.search.guide import Guide
from onnxgen.facade.search.one_by_one import OneByOne
from onnxgen.facade.search.round_counts import RoundCounts
from onnxgen.facade.search.rounds.proposals import Proposal, Proposer
from onnxgen.facade.search.rounds.width import Cooldown, Round, Width
from onnxgen.facade.search.source import Chosen
from onnxgen.metadata.genai_config_run import Speculative

Float32Array = npt.NDArray[np.float32]


class Rounds:
    """Guesses tokens of one sequence. See `onnxgen.facade.search.source.TokenSource`.

    Args:
        batch: Its only row is the sequence.
        sampler: Chooses tokens.
        guide: The sequence's grammar.
        proposer: Guesses.
        options: How much is guessed.
        counts: Told of what happens.
        eos_ids: Tokens that end an answer.
        rope_switch_length: See `DecoderModel.rope_switch_length`.
        clock: Seconds.
    """

    def __init__(
        self,
        batch: Batch,
        sampler: OgSampler,
        guide: Guide | None,
        proposer: Proposer,
        *,
        options: Speculative,
        counts: RoundCounts,
        eos_ids: Sequence[int],
        rope_switch_length: int | None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._batch, self._sampler, self._guide, self._proposer = batch, sampler, guide, proposer
        self._options, self._counts, self._eos_ids = options, counts, eos_ids
        self._rope_switch = rope_switch_length
        self._clock = clock
        self._plain = OneByOne(batch, sampler, eos_ids=eos_ids, guides=[] if guide is None else [guide])
        self._width = Width(fixed=options.max_draft_tokens, lowest=options.min_adaptive_k, counts=counts)
        self._cooldown = Cooldown(enabled=options.cooldown, counts=counts)
        self._queue: deque[tuple[int, Float32Array]] = deque()
        self._round = Round(width=0, evaluated=0, accepted=0, emitted=0, is_full=False, elapsed_ms=0.0)

    def next(self, rows: Sequence[int], *, length: int) -> Chosen:
        """The next token of the round that is under way, or of a new one."""
        if not self._queue:
            if self._cooldown.remaining and not (self._guide and self._guide.forced()):
                chosen = self._step_plainly(rows, length=length)
                self._cooldown.step()
                return chosen
            if not self._begin(length):
                return self._step_plainly(rows, length=length)
        token, logits = self._queue[0]
        return Chosen([token], logits[None])

    def taken(self, rows: Sequence[int], chosen: Chosen, *, length: int, done: bool) -> None:
        """A token was handed out; the round may be over."""
        self._plain.taken(rows, chosen, length=length, done=done)
        if not self._queue:
            return  # it was none of a round
        token, _ = self._queue.popleft()
        if token in self._eos_ids:
            self._counts.tokens_discarded += 1
            self._end_early(drawn_up_to=length + 1)
            return
        self._counts.tokens_emitted += 1
        if not self._queue:
            self._complete()
        elif done:
            self._end_early(drawn_up_to=length + 1)

    def interrupt(self, *, length: int) -> None:
        """What is not handed out yet is void."""
        if self._queue:
            self._end_early(drawn_up_to=length)

    def begin_answer(self, *, length: int) -> None:
        """The grammar begins anew."""
        self._plain.begin_answer(length=length)

    def rewind(self, length: int) -> None:
        """All begins anew, but for counts."""
        self.interrupt(length=length)
        self._plain.rewind(length)
        self._proposer.rewind()
        self._width.reset()
        self._cooldown.reset()

    def fork(self, batch: Batch, *, length: int) -> Rounds:
        """Another one, with a round of its own and counts that begin where these are."""
        counts, sampler = self._counts.copy(), self._sampler.fork()
        other = Rounds(
            batch,
            sampler,
            self._guide and self._guide.fork(),
            self._proposer.fork(sampler, counts),
            options=self._options,
            counts=counts,
            eos_ids=self._eos_ids,
            rope_switch_length=self._rope_switch,
            clock=self._clock,
        )
        other._width, other._cooldown = self._width.copy(counts), self._cooldown.copy(counts)
        other._queue, other._round = self._queue.copy(), self._round
        other.interrupt(length=length)
        return other

    def stats(self) -> Mapping[str, int | float | bool | list[int]]:
        """What guessing did so far."""
        return self._counts.report(
            buffered=len(self._queue),
            width=self._width.now,
            cooldown_remaining=self._cooldown.remaining,
            throughput=self._width.throughput,
        )

    def close(self) -> None:
        """Release what the proposer holds."""
        self._proposer.close()

    def _begin(self, length: int) -> bool:
        """Guess, check, and queue the tokens that come of it; False if there is no guess."""
        started = self._clock()
        count = min(self._width.now, self._batch.max_tokens - length)
        if self._rope_switch is not None and length <= self._rope_switch:
            count = min(count, self._rope_switch - length)
            if not count:
                return False  # what lies beyond is computed with other rotary factors
        drawn = self._sampler.drawn
        try:
            proposal = self._proposer.propose(self._batch.tokens(0), count, self._guide)
            proposed = self._clock()
            self._counts.total_draft_ms += (proposed - started) * 1000
            if not proposal.tokens:
                return False
            logits = self._batch.look_ahead(0, proposal.tokens)
            self._counts.total_target_verify_ms += (self._clock() - proposed) * 1000
            self._counts.target_verify_forward_passes += 1
            tokens, is_bonus = self._check(proposal, logits, drawn=drawn)
        except BaseException:
            self._sampler.rewind(length)
            self._sampler.drawn = drawn
            raise
        self._queue.extend(zip(tokens, logits, strict=False))
        is_full = len(proposal.tokens) == count == self._width.now
        self._note(proposal, tokens, is_full=is_full, is_bonus=is_bonus, started=started)
        return True

    def _check(
        self, proposal: Proposal, logits: Sequence[Float32Array], *, drawn: int
    ) -> tuple[list[int], bool]:
        """The tokens of a round, and whether the last one is one more than was guessed.

        Args:
            proposal: The guess.
            logits: What comes after the sequence, and after each of its tokens.
            drawn: What had been drawn before the guess.
        """
        held = self._batch.tokens(0)
        history = np.concatenate([held, np.array(proposal.tokens, np.int64)])
        tokens: list[int] = []
        for at, row in enumerate(logits):
            if at < len(proposal.tokens) and proposal.forced[at]:
                tokens.append(proposal.tokens[at])
                continue
            if at == len(proposal.tokens) and self._guide and self._guide.forced(tokens):
                break  # there was no room for all that is forced
            try:
                allowed = row if self._guide is None else self._guide.allowed(row, tokens)
                tokens.append(self._choose(allowed, proposal, at, history[: len(held) + at], drawn=drawn))
            except OnnxgenError:
                if not tokens:
                    raise
                return tokens, False  # it is raised again when it is this token's turn
            drawn = self._sampler.drawn
            if at == len(proposal.tokens):
                return tokens, True
            if tokens[-1] != proposal.tokens[at] or (self._guide and tokens[-1] in self._eos_ids):
                break
        return tokens, False

    def _choose(
        self, row: Float32Array, proposal: Proposal, at: int, history: npt.NDArray[np.int64], *, drawn: int
    ) -> int:
        draft = proposal.drawn_from[at] if at < len(proposal.tokens) else None
        if draft is None:
            return self._sampler(row[None], sequences=[0], histories=[history], length=len(history))[0]
        target = self._sampler.candidates(row, history)
        token = self._sampler.stands(proposal.tokens[at], target=target, draft=draft)
        self._sampler.keep(len(history), drawn)
        return token

    def _note(
        self, proposal: Proposal, tokens: Sequence[int], *, is_full: bool, is_bonus: bool, started: float
    ) -> None:
        """A round has begun."""
        counts, width = self._counts, len(proposal.tokens)
        judged = [
            token == guess
            for token, guess, forced in zip(tokens, proposal.tokens, proposal.forced, strict=False)
            if not forced
        ]
        counts.rounds += 1
        counts.draft_tokens_proposed += width
        counts.draft_tokens_evaluated += len(judged)
        counts.draft_tokens_accepted += sum(judged)
        counts.correction_tokens += not all(judged)
        counts.bonus_tokens += is_bonus
        counts.tokens_queued += len(tokens)
        if self._guide is None:
            counts.formula_widths[width] += 1
        elapsed_ms = (self._clock() - started) * 1000
        self._round = Round(width, len(judged), sum(judged), len(tokens), is_full, elapsed_ms)

    def _complete(self) -> None:
        """All tokens of the round were handed out."""
        counts, seen = self._counts, self._round
        counts.completed_rounds += 1
        counts.accepted_lengths[seen.accepted] += 1
        if seen.evaluated:
            counts.full_accept_rounds += seen.accepted == seen.evaluated
            counts.partial_accept_rounds += 0 < seen.accepted < seen.evaluated
            counts.zero_accept_rounds += not seen.accepted
        started = self._clock()
        self._proposer.settle(self._batch.tokens(0))
        settled_ms = (self._clock() - started) * 1000
        counts.total_draft_ms += settled_ms
        seen = replace(seen, elapsed_ms=seen.elapsed_ms + settled_ms)
        self._cooldown.learn(seen, lowest=self._width.lowest)
        self._width.learn(seen)

    def _end_early(self, *, drawn_up_to: int) -> None:
        self._counts.tokens_discarded += len(self._queue)
        self._counts.interrupted_rounds += 1
        self._queue.clear()
        self._sampler.rewind(drawn_up_to)

    def _step_plainly(self, rows: Sequence[int], *, length: int) -> Chosen:
        runs = self._batch.cached(0) < self._batch.length(0)
        started = self._clock()
        chosen = self._plain.next(rows, length=length)
        if runs:
            self._counts.target_reanchor_forward_passes += 1
            self._counts.total_target_reanchor_ms += (self._clock() - started) * 1000
        self._counts.standard_fallback_steps += 1
        return chosen
