"""`AcceptanceRates`: how many tokens of a draft are right, learned from those that there were."""

from __future__ import annotations

_FIRST_GUESS, _NEXT_GUESS = 0.3, 0.6
"""What is thought before anything was seen: where a draft was right once, it mostly goes on to be."""

_TRUST = 2.0
"""How many trials what is known of others counts as."""


class _Rate:
    """How often something came true, lately."""

    __slots__ = ("_hits", "_kept", "_trials")

    def __init__(self, memory: int) -> None:
        self._kept = 1 - 1 / memory
        self._hits = self._trials = 0.0

    def observe(self, hits: int, misses: int) -> None:
        kept = self._kept ** (hits + misses)
        self._hits = self._hits * kept + hits
        self._trials = self._trials * kept + hits + misses

    def given(self, prior: float) -> float:
        return (self._hits + _TRUST * prior) / (self._trials + _TRUST)


class AcceptanceRates:
    """How often the first token of a draft is right, and each further one after right ones; by kind of draft.

    Args:
        memory: About so many trials count.
        others: What is known of other sequences, which a sequence begins with and adds to; None: nothing.
    """

    def __init__(self, *, memory: int, others: AcceptanceRates | None = None) -> None:
        self._memory = memory
        self._others = others
        self._first: dict[int, _Rate] = {}
        self._next: dict[int, _Rate] = {}

    def observe(self, kind: int, *, proposed: int, accepted: int) -> None:
        """Of the first ``proposed`` tokens of a draft so many were right."""
        if not proposed:
            return
        first = self._first.setdefault(kind, _Rate(self._memory))
        further = self._next.setdefault(kind, _Rate(self._memory))
        first.observe(int(accepted > 0), int(accepted == 0))
        if accepted:
            further.observe(accepted - 1, int(accepted < proposed))
        if self._others is not None:
            self._others.observe(kind, proposed=proposed, accepted=accepted)

    def observe_further(self, kind: int, *, right: int, wrong: bool) -> None:
        """Behind right tokens of a draft came so many right ones, and then a wrong one or none that is known."""
        self._next.setdefault(kind, _Rate(self._memory)).observe(right, int(wrong))
        if self._others is not None:
            self._others.observe_further(kind, right=right, wrong=wrong)

    def chances(self, kind: int, length: int) -> list[float]:
        """How probable it is that the first token counts, that the first two do, and so on ``[length]``."""
        chance, further = self._rates(kind)
        chances: list[float] = []
        for _ in range(length):
            chances.append(chance)
            chance *= further
        return chances

    def _rates(self, kind: int) -> tuple[float, float]:
        prior = (_FIRST_GUESS, _NEXT_GUESS) if self._others is None else self._others._rates(kind)
        first, further = self._first.get(kind), self._next.get(kind)
        return (
            prior[0] if first is None else first.given(prior[0]),
            prior[1] if further is None else further.given(prior[1]),
        )
