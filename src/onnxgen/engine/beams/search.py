"""`BeamSearch`: beams of several prompts over one `Batch`.

Rows of the batch, for 2 prompts with 4 beams each in 2 groups::

    prompt    0               1
    group     0       1       0       1
    beam      0   1   0   1   0   1   0   1
    row       0   1   2   3   4   5   6   7

A prompt is computed once, by its first row; the others become copies of it. In every step open beams are the first
rows of their group, best first; what other rows hold does not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from onnxgen.engine.batch import Batch, Float32Array
from onnxgen.engine.beams.candidates import Decision
from onnxgen.engine.beams.group import Answer, BeamGroup
from onnxgen.engine.beams.hypotheses import Hypothesis
from onnxgen.engine.beams.options import BeamOptions, BeamRules
from onnxgen.engine.beams.processing import BeamProcessing


class _Prompt:
    """Beams of one prompt.

    Attributes:
        first_row: Of the batch.
        groups: In order.
        num_tokens: Length of the prompt.
        num_new_tokens: What was appended to it.
        max_new_tokens: The most.
    """

    def __init__(self, first_row: int, num_tokens: int, max_new_tokens: int, groups: list[BeamGroup]) -> None:
        self.first_row = first_row
        self.num_tokens = num_tokens
        self.num_new_tokens = 0
        self.max_new_tokens = max_new_tokens
        self.groups = groups

    @property
    def done(self) -> bool:
        return all(group.done for group in self.groups)


class BeamSearch:
    """Searches for the best continuations of some prompts. Not safe to use from several threads at once.

    A prompt's answers depend on that prompt alone, never on the others of the batch.

    Args:
        batch: ``prompts * num_beams`` rows, empty; the caller's to close.
        prompts: Token ids of each prompt, at least one.
        max_new_tokens: Of each prompt, the most tokens that are appended, at least 1.
        options: What was asked for.
        rules: How to count.
        eos_ids: Tokens that end a sequence.
        processing: Penalties and bans.

    Raises:
        TokenIdError: An id is outside the vocabulary.
        ContextLengthError: A prompt does not fit the batch.
        BackendError: Computing the prompts failed.
    """

    def __init__(
        self,
        batch: Batch,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: Sequence[int],
        options: BeamOptions,
        rules: BeamRules,
        eos_ids: Collection[int],
        processing: BeamProcessing,
    ) -> None:
        beams = options.num_beams
        assert batch.num_rows == len(prompts) * beams and min(max_new_tokens) > 0
        self._batch = batch
        self._options = options
        self._processing = processing
        self._prompts = [
            _Prompt(
                number * beams,
                len(prompt),
                most,
                [
                    BeamGroup(options, rules, eos_ids=eos_ids, prompt_tokens=len(prompt), max_new_tokens=most)
                    for _ in range(options.num_beam_groups)
                ],
            )
            for number, (prompt, most) in enumerate(zip(prompts, max_new_tokens, strict=True))
        ]
        firsts = [prompt.first_row for prompt in self._prompts]
        with batch.transaction():
            for row, ids in zip(firsts, prompts, strict=True):
                batch.extend(row, ids)
            batch.forward(firsts)
        batch.reorder([row - row % beams for row in range(batch.num_rows)])
        self._next_tokens: list[int | None] = [None] * batch.num_rows

    @property
    def done(self) -> bool:
        """Whether the search for every prompt has ended."""
        return all(prompt.done for prompt in self._prompts)

    @property
    def next_tokens(self) -> Sequence[int | None]:
        """What the last step appended to each row; None where it appended nothing."""
        return self._next_tokens

    def open_rows(self) -> list[int]:
        """Rows of the beams that are still followed."""
        return [
            row
            for prompt in self._prompts
            for number, group in enumerate(prompt.groups)
            for row in self._rows(prompt, number)
            if not group.done
        ]

    def logits(self) -> Float32Array:
        """Logits that the next step chooses from, float32 ``[rows, vocab]`` of `open_rows`, to be read only."""
        return self._batch.forward(self.open_rows())

    def step(self) -> None:
        """Follow every prompt that is not done one token further; there must be one.

        Raises:
            BackendError: The step failed, or its logits are broken. Nothing was changed.
            LogitsProcessorError: A processor failed. Nothing was changed.
        """
        rows = self.open_rows()
        logits = self._batch.forward(rows)
        place = {row: at for at, row in enumerate(rows)}
        active = [prompt for prompt in self._prompts if not prompt.done]
        decided = [(prompt, self._decide(prompt, logits, place)) for prompt in active]
        self._commit(decided)

    def results(self, prompt: int) -> list[Hypothesis]:
        """The best hypotheses of a prompt as if the search ended now, best first: up to ``num_return_sequences``."""
        own = self._prompts[prompt]
        found = [
            hypothesis
            for number, group in enumerate(own.groups)
            for hypothesis in group.results(self._answers(own, number))
        ]
        found.sort(key=lambda hypothesis: -hypothesis.score)  # stable
        return found[: self._options.num_return_sequences]

    def is_done(self, prompt: int) -> bool:
        """Whether the search for a prompt has ended."""
        return self._prompts[prompt].done

    def _decide(self, prompt: _Prompt, logits: Float32Array, place: dict[int, int]) -> list[Decision | None]:
        """What the step means for each group of a prompt; None for groups that are done."""
        decisions: list[Decision | None] = []
        taken: Counter[int] = Counter()
        for number, group in enumerate(prompt.groups):
            if group.done:
                decisions.append(None)
                continue
            rows = self._rows(prompt, number)
            ranked = self._processing.rank(
                logits[place[rows[0]] : place[rows[-1]] + 1],
                histories=[self._batch.tokens(row) for row in rows],
                num_new_tokens=prompt.num_new_tokens,
                taken={token: self._options.diversity_penalty * count for token, count in taken.items()},
            )
            decision = group.decide(ranked)
            decisions.append(decision)
            if self._options.diversity_penalty:
                taken.update(candidate.token for candidate in decision.opened)
        return decisions

    def _commit(self, decided: Sequence[tuple[_Prompt, Sequence[Decision | None]]]) -> None:
        """Take a step over; nothing below raises half way."""
        parents = list(range(self._batch.num_rows))
        tokens: list[int | None] = [None] * self._batch.num_rows
        for prompt, decisions in decided:
            prompt.num_new_tokens += 1
            for number, (group, decision) in enumerate(zip(prompt.groups, decisions, strict=True)):
                if decision is None:
                    continue
                group.commit(decision, self._answers(prompt, number))
                first = self._first_row(prompt, number)
                for beam, candidate in enumerate(decision.opened):
                    parents[first + beam] = first + candidate.beam
                    tokens[first + beam] = candidate.token
        self._batch.reorder(parents)
        for row, token in enumerate(tokens):
            if token is not None:
                self._batch.append(row, token)
        for prompt, _ in decided:
            if prompt.num_new_tokens == prompt.max_new_tokens:
                for number, group in enumerate(prompt.groups):
                    group.close(self._answers(prompt, number))
        self._next_tokens = tokens

    def _answers(self, prompt: _Prompt, group: int) -> Answer:
        first = self._first_row(prompt, group)
        return lambda beam: tuple(self._batch.tokens(first + beam)[prompt.num_tokens :].tolist())

    def _first_row(self, prompt: _Prompt, group: int) -> int:
        return prompt.first_row + group * self._options.group_beams

    def _rows(self, prompt: _Prompt, group: int) -> range:
        first = self._first_row(prompt, group)
        return range(first, first + len(prompt.groups[group].scores))
