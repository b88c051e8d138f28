"""What a replay knows: rules and their violations, requests, sequences, and the pools that hold their tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Literal, get_args

from onnxgen.conformance.engine_trace.pool import ANYTHING, NEVER_WRITTEN, Beginnings, Pool

Rule = Literal[
    "version",  # another format, or no first line that says which
    "format",  # a line is no JSON object, or a field is missing or of another type
    "event",  # an event of an unknown name
    "numbering",  # lines are missing, doubled or out of order
    "clock",  # time runs backwards
    "lifecycle",  # an event that the state of the sequence or of the step does not allow
    "context",  # a length is not what was committed
    "tokens",  # fed tokens are not the sequence's, or there are none to feed
    "range",  # a block that does not exist, or no block where one is needed
    "content",  # a position that is read does not hold what the sequence says (a wrong prefix hit, an overwritten block)
    "sharing",  # a position is written that another sequence relies on
    "collision",  # two sequences of a step write the same block
    "copy",  # a copy reads what was never written, or depends on the order of copies
    "budget",  # a step is larger than allowed
    "starved",  # a running answer waits while prompts are computed
    "sample",  # a token was chosen where no logits were
    "finish",  # a sample ended twice or never
    "after_finish",  # a sample that has ended goes on
    "lost",  # a preempted sequence neither came back nor ended
    "leak",  # blocks or sequences are left, or the engine counts others than were used
    "close",  # the trace ends without a shutdown, or goes on after one
]


RULES: tuple[Rule, ...] = get_args(Rule)


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule broken at one line.

    Attributes:
        line: Line of the file, from 1.
        rule: Which one.
        message: What was found, and what should have been.
    """

    line: int
    rule: Rule
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.rule}: {self.message}"


class State(Enum):
    """Where a sequence is in its life."""

    WAITING = auto()
    RUNNING = auto()
    PREEMPTED = auto()
    GONE = auto()


@dataclass(slots=True, eq=False)
class Reserved:
    """What a sequence may write in a step; tables are of the step, of both groups."""

    context_len: int
    num_tokens: int
    tables: list[list[int]]
    copies: list[list[int]]
    executed: bool = False


@dataclass(slots=True, eq=False)
class TracedSequence:
    """One sequence.

    Attributes:
        id: Its number.
        request: Whose request.
        index: Which sample of it.
        extra: What its content depends on besides tokens.
        num_prompt: How many tokens it began with.
        min_chunk_end: A chunk that begins before ends there or behind it, whatever the budgets say.
        tokens: All that are known.
        chain: What the position of each of them holds once it is computed.
        state: Where it is in its life.
        length: Tokens committed, or that needed no computing.
        verified: Positions that were seen to hold what they should; fewer than ``length`` where a copy is due.
        tables: Blocks of both groups, as committed.
        draft: Tokens that may follow, of the step that is being planned or done.
        reserved: Its part of the step.
        has_logits: A token may be chosen.
        starved_steps: How many steps in a row it missed while prompts were computed.
    """

    id: int
    request: int
    index: int
    extra: str | None
    num_prompt: int
    min_chunk_end: int
    tokens: list[int] = field(default_factory=list[int])
    chain: list[int] = field(default_factory=list[int])
    state: State = State.WAITING
    length: int = 0
    verified: int = 0
    tables: list[list[int]] = field(default_factory=lambda: [[], []])
    draft: list[int] = field(default_factory=list[int])
    reserved: Reserved | None = None
    has_logits: bool = False
    starved_steps: int = 0

    @property
    def name(self) -> str:
        """For messages."""
        return f"sequence {self.id} (sample {self.index} of request {self.request})"


@dataclass(slots=True, eq=False)
class TracedRequest:
    """One request: its samples, which of them have a sequence, and which have ended."""

    samples: int
    indexes: set[int]
    finished: set[int] = field(default_factory=set[int])


Fields = Mapping[str, Any]
"""Of one event, by name."""


class World:
    """Sequences, requests and pools as the events so far left them.

    Attributes:
        violations: What was found so far, in the order of the file.
        line: Which line is being followed, from 1.
        pools: Of the layers that see everything, and of those that see a window; empty before the first event.
        budgets: What a step may hold; None before it was said.
        requests: By id.
        sequences: By id.
        running: Those that take part in steps.
    """

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.line = 0
        self.pools: list[Pool] = []
        self.budgets: Fields | None = None
        self.requests: dict[int, TracedRequest] = {}
        self.sequences: dict[int, TracedSequence] = {}
        self.running: dict[int, TracedSequence] = {}
        self._by_request: dict[int, list[TracedSequence]] = {}
        self._beginnings = Beginnings()

    def note(self, rule: Rule, message: str, *, line: int | None = None) -> None:
        """A rule is broken, at the current line if no other is given."""
        self.violations.append(Violation(self.line if line is None else line, rule, message))

    def add(self, s: TracedSequence) -> None:
        """There is another sequence."""
        self.sequences[s.id] = s
        self._by_request.setdefault(s.request, []).append(s)

    def of(self, request: int) -> list[TracedSequence]:
        """The sequences that a request ever had."""
        return self._by_request.get(request, [])

    def append(self, s: TracedSequence, tokens: Sequence[int]) -> None:
        """Let a sequence go on with tokens."""
        s.tokens += tokens
        self._beginnings.extend(s.chain, tokens, extra=s.extra)

    def content(self, s: TracedSequence, start: int, stop: int) -> list[int]:
        """What positions of a sequence, and of its draft behind it, hold once they are computed."""
        if stop <= len(s.chain):
            return s.chain[start:stop]
        ahead = [*s.chain]
        self._beginnings.extend(ahead, s.draft, extra=s.extra)
        return ahead[start:stop]

    def has_ended(self, s: TracedSequence) -> bool:
        """Whether the last event of a sequence's sample was told."""
        return s.index in self.requests[s.request].finished

    def find(self, seq: int, state: State | None = None) -> TracedSequence | None:
        """The sequence an event is about, if it is there and in the right state."""
        s = self.sequences.get(seq)
        if s is None or s.state is State.GONE or (state is not None and s.state is not state):
            found = "is unknown" if s is None else f"is {s.state.name.lower()}"
            wanted = "" if state is None else f", not {state.name.lower()}"
            self.note("lifecycle", f"sequence {seq} {found}{wanted}")
            return None
        if state is not None and self.has_ended(s):
            self.note("after_finish", f"{s.name} goes on after its end")
        return s

    def groups(self, tables: list[list[int]]) -> list[tuple[Pool, list[int]]]:
        """The groups of blocks that there are, each with its table."""
        return [(pool, table) for pool, table in zip(self.pools, tables, strict=True) if pool.num_blocks]

    def in_range(self, s: TracedSequence, tables: list[list[int]]) -> bool:
        """Whether tables name blocks that exist, each of them once; notes it if not."""
        for pool, table in zip(self.pools, tables, strict=True):
            named = [block for block in table if block != -1]
            if named and not 0 <= min(named) <= max(named) < pool.num_blocks:
                self.note("range", f"{s.name} names blocks {table} of a pool of {pool.num_blocks}")
                return False
            if len(set(named)) != len(named):
                self.note("collision", f"{s.name} has a block twice: {table}")
                return False
        return True

    def check_content(
        self, s: TracedSequence, pool: Pool, table: list[int], *, start: int, stop: int
    ) -> None:
        """Note the first position of ``[start, stop)`` that is still read and does not hold what it should."""
        at = pool.first_difference(table, s.chain, start=max(start, pool.seen_from(s.length)), stop=stop)
        if at is None:
            return
        block, offset = table[at // pool.block_size], at % pool.block_size
        found = pool.content(block)[offset]
        kinds = {NEVER_WRITTEN: "was never written", ANYTHING: "was spoiled by a failed step"}
        what = kinds.get(found, "holds another beginning")
        self.note("content", f"{s.name} reads position {at} in block {block}, offset {offset}, which {what}")


def reservations(parts: Sequence[TracedSequence]) -> Iterator[tuple[TracedSequence, Reserved]]:
    """Those that have a reservation, with it."""
    return ((s, s.reserved) for s in parts if s.reserved is not None)
