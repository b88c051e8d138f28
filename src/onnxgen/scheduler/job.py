"""One sequence, as far as scheduling goes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from onnxgen.kvcache.base import Extra, Tokens


class JobState(Enum):
    """Where a job is.

    ::

        add ──> WAITING ──admitted──> RUNNING <──resumed──┬── SWAPPED     its blocks lie in a tier
                                         └───preempted───>└── PREEMPTED   its blocks are gone
    """

    WAITING = "waiting"
    RUNNING = "running"
    SWAPPED = "swapped"
    PREEMPTED = "preempted"


@dataclass(slots=True, eq=False)
class Job:
    """What the scheduler knows of one sequence.

    Attributes:
        id: The sequence's id in the cache.
        tokens: Its tokens so far, to which the engine appends. What the cache does not hold of them is left to
            compute: one token is a decode, more are a prefill.
        max_tokens: Prompt and answer together have at most this many tokens.
        priority: Smaller goes first.
        tenant: On whose account it runs, for fair shares.
        extra: What cached content depends on besides tokens.
        width: Sequences that it counts as, because it will fork into so many. Each fork lowers it, and
            whoever owns the job when it will fork into fewer.
        lane: Jobs of different lanes never share a step.
        min_chunk_end: Its first chunk reaches at least this position, whatever the budget of a step.
        allow_cap: ``max_tokens`` may be lowered to what fits.
        adapter: Name of the adapter that computes it, which is the backend's matter; None: none.
        chunk_limit: No chunk of it all of whose logits are wanted is longer, nor any chunk where jobs run alone, but for
            ``min_chunk_end``; None: only the configuration counts.
        logits_from: Position from which on the logits of all known tokens are wanted, so that they are computed though
            others have; whoever owns the job moves it on as they come. None: those of the last one are enough.
        draft: Tokens that may follow those it has: computed behind the last one where a step has room, and of no
            account for anything else. Whoever owns the job guesses them anew for every step, while only its last token
            is left to compute and no more tokens are guessed than it may get.
        state: Where it is. This and what follows is kept by the scheduler.
        arrival: How many jobs came before it.
        since: The step at which it began to wait.
        prompt_tokens: How many tokens it came with.
        claim: Who gives way to whom among those admitted: the smaller one has the higher claim.
        goal: It is not preempted for room before the cache holds this many of its tokens.
        charged: Position up to which its tenant paid.
        last_step: The last step that it took part in; -1: none yet.
    """

    id: int
    tokens: Tokens
    max_tokens: int
    priority: int = 0
    tenant: str = ""
    extra: Extra = None
    width: int = 1
    lane: Hashable = None
    min_chunk_end: int = 0
    allow_cap: bool = False
    adapter: str | None = None
    chunk_limit: int | None = None
    logits_from: int | None = None
    draft: Sequence[int] = ()
    state: JobState = field(default=JobState.WAITING, init=False)
    arrival: int = field(default=-1, init=False)
    since: int = field(default=0, init=False)
    prompt_tokens: int = field(default=0, init=False)
    claim: tuple[float, int] = field(default=(0.0, 0), init=False)
    goal: int = field(default=0, init=False)
    charged: int = field(default=0, init=False)
    last_step: int = field(default=-1, init=False)
