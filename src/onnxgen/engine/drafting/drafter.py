"""`Drafter`: gets drafts for sequences that may have one, and decides how much of each is computed.

What takes no time to guess is guessed first, and then as much of it is computed as promises to pay. Of what takes time, no
more is guessed than promises to pay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from onnxgen.engine.drafting.following import Following
from onnxgen.engine.speculation.asking import AskedProposer
from onnxgen.engine.speculation.base import Draft, Wanted
from onnxgen.engine.speculation.control import DraftLengths, Offer
from onnxgen.engine.speculation.drafts import shortened
from onnxgen.errors import GrammarError
from onnxgen.scheduler.job import Job

_CHEAP = frozenset({"prompt_lookup"})
"""Methods whose guesses take next to no time."""


@dataclass(frozen=True, slots=True)
class Room:
    """A sequence that may have a draft in the next step.

    Attributes:
        job: The sequence as the scheduler knows it.
        following: What drafts have been to it so far.
        num_tokens: The longest draft that it has room for.
    """

    job: Job
    following: Following
    num_tokens: int


class Drafter:
    """Gets drafts.

    Args:
        lengths: Decides what is worth computing.
        eos_ids: Tokens that end answers.

    Attributes:
        switched_off: How often drafts of a sequence were found not to pay.
        switched_on: How often that was taken back.
    """

    def __init__(self, lengths: DraftLengths, *, eos_ids: frozenset[int]) -> None:
        self._lengths = lengths
        self._eos_ids = eos_ids
        self.switched_off = self.switched_on = 0

    def drafts(self, room: Sequence[Room], *, num_seqs: int) -> list[tuple[Job, Draft]]:
        """What is computed of drafts in the next step.

        Args:
            room: Sequences that may have one.
            num_seqs: Sequences that get a token from the step in any case.
        """
        cheap = [each for each in room if each.following.proposer.method in _CHEAP]
        costly = [each for each in room if each.following.proposer.method not in _CHEAP]
        found = list(self._costly_drafts(costly, num_seqs=num_seqs)) if costly else []
        if cheap:
            rows = num_seqs + sum(len(draft.tokens) for _, draft in found)
            found += self._cheap_drafts(cheap, num_seqs=num_seqs, rows=rows)
        return found

    def _cheap_drafts(self, room: Sequence[Room], *, num_seqs: int, rows: int) -> Iterator[tuple[Job, Draft]]:
        guessed: list[tuple[Room, Draft]] = []
        for each, draft in _ask(room):
            fitting = self._fitting(each.following, draft)
            if fitting is None:
                each.following.note_asked(0)
            else:
                guessed.append((each, fitting))
        offers = [_offer(each.following, draft.kind, len(draft.tokens)) for each, draft in guessed]
        lengths = self._lengths.choose(offers, num_seqs=num_seqs, rows=rows)
        for (each, draft), worth in zip(guessed, lengths, strict=True):
            length = self._decided(each.following, worth, most=len(draft.tokens))
            each.following.note_asked(length)
            if length < len(draft.tokens):
                each.following.watch(draft, computed=length)
            computed = shortened(draft, length)
            if computed is not None:
                yield each.job, computed

    def _costly_drafts(self, room: Sequence[Room], *, num_seqs: int) -> Iterator[tuple[Job, Draft]]:
        offers = [
            _offer(
                each.following,
                0,
                each.num_tokens,
                seconds_per_token=each.following.proposer.seconds_per_token,
            )
            for each in room
        ]
        asked: list[Room] = []
        lengths = self._lengths.choose(offers, num_seqs=num_seqs, rows=num_seqs)
        for each, worth in zip(room, lengths, strict=True):
            length = self._decided(each.following, worth, most=each.num_tokens)
            length = each.following.trial(length, most=each.num_tokens)
            if length:
                asked.append(Room(each.job, each.following, length))
        for each, draft in _ask(asked):
            fitting = self._fitting(each.following, draft)
            if fitting is not None:
                yield each.job, fitting

    def _fitting(self, following: Following, draft: Draft | None) -> Draft | None:
        """The beginning of a draft that an answer can have: up to what ends it, and to what its grammar forbids."""
        if draft is None:
            return None
        sample = following.sample
        ends = sample.request.stop_token_ids
        if not sample.request.ignore_eos or ends:
            own = self._eos_ids if not sample.request.ignore_eos else frozenset[int]()
            length = next(
                (at for at, token in enumerate(draft.tokens) if token in own or token in ends),
                len(draft.tokens),
            )
            draft = shortened(draft, length)
        if draft is None or sample.grammar is None:
            return draft
        try:
            sample.grammar.follow(sample.answer)
            return shortened(draft, sample.grammar.valid_prefix(draft.tokens))
        except GrammarError:  # the step says so in its own time
            return None

    def _decided(self, following: Following, length: int, *, most: int) -> int:
        """How long a draft is, of which so much is worth computing."""
        if not following.options.adaptive:
            return most
        if following.note_worth(length):
            self.switched_off += following.is_off
            self.switched_on += not following.is_off
        return length


def _ask(room: Sequence[Room]) -> Iterable[tuple[Room, Draft | None]]:
    """Ask each proposer once, for all of its sequences."""
    by_proposer: dict[AskedProposer, list[Room]] = {}
    for each in room:
        by_proposer.setdefault(each.following.proposer, []).append(each)
    for proposer, group in by_proposer.items():
        wanted = [
            Wanted(
                key=each.job.id,
                history=each.following.sample.history,
                num_tokens=each.num_tokens,
                row=each.following.sample,
                min_match=each.following.options.min_match,
                hidden=each.following.take_hidden() if proposer.needs_hidden_states else None,
                mask_source=each.following.sample.grammar,
                extra=each.job.extra,
            )
            for each in group
        ]
        yield from zip(group, proposer.propose(wanted), strict=True)


def _offer(following: Following, kind: int, length: int, *, seconds_per_token: float = 0.0) -> Offer:
    return Offer(following.rates.chances(kind, length), seconds_per_token)
