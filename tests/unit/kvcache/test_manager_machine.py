"""Thousands of random operations on a cache, each followed by the whole sum and by reading everything back."""

from __future__ import annotations

import random
from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cache_shadow import ShadowCache, ShadowMover
from onnxgen.errors import StateError
from onnxgen.kvcache.base import PoolShape
from onnxgen.kvcache.manager import CacheManager
from onnxgen.kvcache.reservation import Reservation
from onnxgen.kvcache.sequence import Checkpoint
from onnxgen.kvcache.tiers import Tiers

SEQS = st.integers(0, 5)
PICK = st.integers(0, 1_000_000)


class CacheMachine(RuleBasedStateMachine):
    """Sequences come, grow, fork, go back and go; a shadow of the backend keeps what their blocks hold."""

    def shape(self, rng: random.Random) -> PoolShape:
        return PoolShape(rng.randint(1, 12), rng.randint(1, 8))

    @initialize(seed=PICK)
    def begin(self, seed: int) -> None:
        rng = random.Random(seed)
        self.pool = self.shape(rng)
        self.reuse = rng.random() < 0.9
        self.shadow = ShadowCache(self.pool)
        self.mover: ShadowMover | None = None
        tiers = None
        if rng.random() < 0.6:
            self.mover = ShadowMover(self.shadow, rng, failures=rng.choice([0, 0, 0.2]))
            host, disk = rng.randint(0, 60), rng.choice([0, rng.randint(0, 60)])
            tiers = Tiers(self.mover, host_bytes=host, disk_bytes=disk)
        self.cache = CacheManager(self.pool, prefix_reuse=self.reuse, tiers=tiers)
        self.tokens: dict[int, list[int]] = {}
        self.extras: dict[int, str | None] = {}
        self.reservation: Reservation | None = None
        self.pending: dict[int, int] = {}
        self.drafted: dict[int, int] = {}
        self.checkpoints: list[tuple[Checkpoint, list[int]]] = []
        self.said: list[list[int]] = []

    def tables(self, source: CacheManager | Reservation, seq: int) -> list[list[int]]:
        tables = [list(source.blocks(seq))]
        if self.pool.window is not None:
            tables.append(list(source.window_blocks(seq)))
        return tables

    def some_tokens(self, rng: random.Random) -> list[int]:
        """The beginning of what some sequence said, and then something else."""
        known = [*self.said, *self.tokens.values()]
        past = rng.choice(known) if known and rng.random() < 0.8 else []
        return past[: rng.randint(0, len(past))] + [rng.randint(0, 1) for _ in range(rng.randint(1, 12))]

    @rule(seq=SEQS, pick=PICK)
    def open(self, seq: int, pick: int) -> None:
        rng = random.Random(pick)
        tokens, extra = self.some_tokens(rng), rng.choice([None, None, None, "adapter"])
        if seq in self.tokens:
            with pytest.raises(StateError, match="open already"):
                self.cache.open(seq, tokens)
            return
        limit = rng.choice([None, None, rng.randint(0, len(tokens))])
        limited = {"extra": extra, "reuse_limit": limit}
        promised = self.cache.would_reuse(tokens, **limited)
        most = len(tokens) - 1 if limit is None else min(limit, len(tokens) - 1)
        if self.pool.can_copy and not self.pool.exact and self.pool.window is None:
            assert promised == min(self.cache.would_reuse(tokens, extra=extra), most)
        assert self.cache.would_share(tokens, **limited) <= promised
        coming = self.cache.coming_prefix(tokens, **limited)
        assert coming == 0 or promised < coming <= most
        reused = self.cache.open(seq, tokens, **limited)
        assert reused == self.cache.length(seq)
        assert reused == promised or (self.mover is not None and reused < promised)
        assert reused <= most
        self.tokens[seq], self.extras[seq] = tokens, extra

    @precondition(lambda self: self.tokens)
    @rule(wanted=st.integers(1, 12), pick=PICK)
    def extend(self, wanted: int, pick: int) -> None:
        if self.reservation is None:
            self.reservation = self.cache.begin_step()
        seq = sorted(self.tokens)[pick % len(self.tokens)]
        if self.cache.is_swapped(seq):
            with pytest.raises(StateError, match="swap it in first"):
                self.reservation.extend(seq, wanted)
            return
        before = self.tables(self.cache, seq)
        missing = self.cache.missing_blocks(wanted, seq=seq) if seq not in self.pending else None
        length = self.cache.length(seq) + self.pending.get(seq, 0)
        granted = self.reservation.extend(seq, wanted)
        assert 0 <= granted <= wanted
        assert self.tables(self.cache, seq) == before or self.pool.window is not None
        room = self.pool.block_size - length if not self.pool.paged else wanted
        if missing == 0 and room > 0:
            assert granted > 0
            if self.pool.window is None and self.pool.snapshot_tokens is None:
                assert granted == min(wanted, room)
        if missing and self.pool.window is None and self.pool.paged:
            assert granted < wanted
        if granted:
            self.pending[seq] = self.pending.get(seq, 0) + granted
            tokens = self.tokens[seq]
            rng = random.Random(pick)
            tokens += [rng.randint(0, 1) for _ in range(length + granted - len(tokens))]

    @precondition(lambda self: self.pending)
    @rule(wanted=st.integers(1, 12), pick=PICK)
    def draft(self, wanted: int, pick: int) -> None:
        """Tokens behind those that were reserved, of which some may not count."""
        assert self.reservation is not None
        rng = random.Random(pick)
        seq = rng.choice(sorted(self.pending))
        if seq in self.drafted:
            return
        length, copies = self.cache.length(seq), self.reservation.copies([seq])
        free = self.cache.usage().full.free
        granted = self.reservation.extend_by_draft(seq, wanted)
        assert 0 <= granted <= wanted
        if self.pool.exact and granted and length:
            assert self.reservation.copies([seq]), "a state that may be needed again is written"
            assert copies or free > self.cache.usage().full.free, "and its copy takes no free block"
        if not granted:
            return
        self.drafted[seq] = granted
        tokens = self.tokens[seq]
        start = length + self.pending[seq]
        self.pending[seq] += granted
        tokens[start:] = [rng.randint(0, 1) for _ in range(granted)]

    @precondition(lambda self: self.pending)
    @rule(pick=PICK)
    def withdraw(self, pick: int) -> None:
        assert self.reservation is not None
        seq = sorted(self.pending)[pick % len(self.pending)]
        self.reservation.withdraw(seq)
        del self.pending[seq]
        self.drafted.pop(seq, None)
        with pytest.raises(StateError, match="takes no part"):
            self.reservation.blocks(seq)

    @precondition(lambda self: self.pending)
    @rule(pick=PICK, fails=st.integers(0, 3))
    def execute(self, pick: int, fails: int) -> None:
        """Run some of the sequences that were extended, as one step that succeeds or fails."""
        assert self.reservation is not None
        rng = random.Random(pick)
        seqs = rng.sample(sorted(self.pending), rng.randint(1, len(self.pending)))
        is_all = len(seqs) == len(self.pending)
        self.shadow.copy(self.reservation.copies(None if is_all else seqs))
        for seq in seqs:
            context = self.reservation.context_len(seq)
            tokens = self.tokens[seq]
            new = tokens[context : context + self.pending[seq]]
            assert len(new) == self.pending[seq]
            assert context == self.cache.length(seq)
            self.shadow.write(self.tables(self.reservation, seq), tokens[:context], new, fails=fails == 0)
        for seq in seqs:
            length = self.cache.length(seq)
            if fails == 0:
                self.reservation.rollback(seq)
                assert self.cache.length(seq) == length
            elif drafted := self.drafted.get(seq):
                self.accept(seq, length, rng.choice([0, drafted, rng.randint(0, drafted)]), rng)
            else:
                self.reservation.commit(seq, self.tokens[seq])
                assert self.cache.length(seq) == length + self.pending[seq]
            del self.pending[seq]
            self.drafted.pop(seq, None)

    def accept(self, seq: int, length: int, accepted: int, rng: random.Random) -> None:
        """Some tokens of a draft count, and others stand where the rest of it was."""
        assert self.reservation is not None
        counted = self.pending[seq] - self.drafted[seq] + accepted
        tokens = self.tokens[seq]
        del tokens[length + counted :]
        tokens += [rng.randint(0, 1) for _ in range(rng.randint(0, 2))]
        if self.pool.exact and accepted < self.drafted[seq]:
            self.reservation.rollback(seq)
            assert self.cache.length(seq) == length
        else:
            self.reservation.commit_accepted(seq, tokens, counted)
            assert self.cache.length(seq) == length + counted
            assert len(self.cache.blocks(seq)) == -(-(length + counted) // self.pool.block_size)

    @precondition(lambda self: self.tokens)
    @rule(pick=PICK)
    def whole_step(self, pick: int) -> None:
        """What an engine does: everybody goes on, many by one token."""
        rng = random.Random(pick)
        for _ in self.tokens:
            self.extend(rng.choice([1, 1, rng.randint(1, 12)]), rng.randrange(1_000_000))
            if self.pending and rng.random() < 0.5:
                self.draft(rng.randint(1, 12), rng.randrange(1_000_000))
        while self.pending:
            self.execute(rng.randrange(1_000_000), rng.randint(0, 5))
        self.next_step()

    @precondition(lambda self: not self.pending)
    @rule()
    def next_step(self) -> None:
        self.reservation = None

    @precondition(lambda self: self.tokens)
    @rule(child=SEQS, pick=PICK)
    def fork(self, child: int, pick: int) -> None:
        parent = sorted(self.tokens)[pick % len(self.tokens)]
        if child in self.tokens:
            with pytest.raises(StateError, match="open already"):
                self.cache.fork(parent, child)
            return
        if parent in self.pending:
            with pytest.raises(StateError, match="takes part in a step"):
                self.cache.fork(parent, child)
            return
        self.cache.fork(parent, child)
        length = self.cache.length(child)
        assert length <= self.cache.length(parent)
        assert length == self.cache.length(parent) or not self.pool.can_copy or self.cache.is_swapped(parent)
        self.tokens[child] = self.tokens[parent][: self.cache.length(parent) + pick % 3]
        self.extras[child] = self.extras[parent]

    @precondition(lambda self: self.tokens)
    @rule(pick=PICK, cut=st.integers(0, 30))
    def rewind(self, pick: int, cut: int) -> None:
        seq = sorted(self.tokens)[pick % len(self.tokens)]
        length = self.cache.length(seq)
        asked = max(0, length - cut)
        if seq in self.pending:
            with pytest.raises(StateError, match="takes part in a step"):
                self.cache.rewind(seq, asked)
            return
        if self.cache.is_swapped(seq):
            with pytest.raises(StateError, match="swap it in before"):
                self.cache.rewind(seq, asked)
            return
        with pytest.raises(StateError, match="cannot be rewound"):
            self.cache.rewind(seq, length + 1)
        self.cache.rewind(seq, asked)
        assert self.cache.length(seq) <= asked
        if asked == length or (self.pool.can_copy and self.pool.window is None and not self.pool.exact):
            assert self.cache.length(seq) == asked
        del self.tokens[seq][max(asked, pick % (len(self.tokens[seq]) + 1)) :]

    @precondition(lambda self: self.tokens and len(self.checkpoints) < 3)
    @rule(pick=PICK)
    def checkpoint(self, pick: int) -> None:
        seq = sorted(self.tokens)[pick % len(self.tokens)]
        if seq in self.pending:
            with pytest.raises(StateError, match="takes part in a step"):
                self.cache.checkpoint(seq)
            return
        if self.cache.is_swapped(seq):
            with pytest.raises(StateError, match="swap it in before"):
                self.cache.checkpoint(seq)
            return
        checkpoint = self.cache.checkpoint(seq)
        assert checkpoint.length <= self.cache.length(seq)
        assert checkpoint.length == self.cache.length(seq) or not self.pool.can_copy
        self.checkpoints.append((checkpoint, self.tokens[seq][: checkpoint.length]))

    @precondition(lambda self: self.checkpoints)
    @rule(pick=PICK)
    def restore(self, pick: int) -> None:
        checkpoint, tokens = self.checkpoints[pick % len(self.checkpoints)]
        if checkpoint.seq not in self.tokens or checkpoint.seq in self.pending:
            with pytest.raises(StateError):
                self.cache.restore(checkpoint)
            return
        if self.tokens[checkpoint.seq][: len(tokens)] != tokens:
            return  # another sequence of that number
        self.cache.restore(checkpoint)
        assert self.cache.length(checkpoint.seq) == checkpoint.length
        self.tokens[checkpoint.seq] = list(tokens)

    @precondition(lambda self: self.checkpoints)
    @rule(pick=PICK)
    def drop(self, pick: int) -> None:
        checkpoint, _ = self.checkpoints.pop(pick % len(self.checkpoints))
        self.cache.drop(checkpoint)
        self.cache.drop(checkpoint)
        with pytest.raises(StateError, match="dropped"):
            self.cache.restore(checkpoint)

    @precondition(lambda self: self.tokens)
    @rule(pick=PICK)
    def swap(self, pick: int) -> None:
        seq = sorted(self.tokens)[pick % len(self.tokens)]
        length, before = self.cache.length(seq), self.cache.usage()
        if seq in self.pending:
            with pytest.raises(StateError, match="takes part in a step"):
                self.cache.swap_out(seq)
        elif not self.cache.is_swapped(seq):
            with pytest.raises(StateError, match="is not swapped out"):
                self.cache.swap_in(seq)
            left = self.cache.swap_out(seq)
            assert self.cache.is_swapped(seq) == left
            assert not (left and self.cache.blocks(seq))
            assert self.cache.length(seq) == length
            assert self.cache.usage().swapped_out == before.swapped_out + left
        else:
            with pytest.raises(StateError, match="is swapped out already"):
                self.cache.swap_out(seq)
            missing = self.cache.missing_blocks(0, seq=seq)
            if self.cache.swap_in(seq):
                assert self.cache.length(seq) in (0, length)
                assert self.cache.length(seq) == length or self.cache.usage().tiers.failures
                assert not missing or self.pool.window is not None
            else:
                assert self.cache.is_swapped(seq)
                assert missing or self.pool.window is not None

    @precondition(lambda self: self.tokens)
    @rule(pick=PICK, keep=st.integers(0, 3))
    def release(self, pick: int, keep: int) -> None:
        seq = sorted(self.tokens)[pick % len(self.tokens)]
        if seq in self.pending:
            with pytest.raises(StateError, match="takes part in a step"):
                self.cache.release(seq, None)
            return
        tokens = self.tokens.pop(seq)
        held = self.cache.length(seq)
        self.cache.release(seq, tokens if keep else None)
        self.said = [*self.said[-6:], tokens]
        extra = self.extras.pop(seq)
        if keep and self.cache.would_reuse([0], extra=extra) == 0 and self.reuses_all:
            assert self.cache.would_reuse([*tokens[:held], 0], extra=extra) == held

    @property
    def reuses_all(self) -> bool:
        """Whether all that a released sequence held must be found again."""
        return False

    @rule(pick=PICK)
    def forget(self, pick: int) -> None:
        if pick % 4 == 0:
            self.cache.forget_prefixes()
            assert self.cache.usage().full.cached == 0

    @invariant()
    def books_agree(self) -> None:
        if not hasattr(self, "cache"):
            return
        self.cache.check_integrity()
        usage = self.cache.usage()
        for group in (usage.full, usage.window):
            if group is not None:
                assert group.free + group.in_use + group.cached == group.total
                assert group.allocated - group.freed == group.total - group.free
        assert usage.sequences == len(self.tokens)

    @invariant()
    def everyone_reads_back_their_own(self) -> None:
        if not hasattr(self, "cache"):
            return
        for seq, tokens in self.tokens.items():
            if self.cache.is_swapped(seq):
                continue
            self.shadow.check(self.tables(self.cache, seq), tokens[: self.cache.length(seq)])
        for checkpoint, tokens in self.checkpoints:
            self.shadow.check(checkpoint.pinned.tables, tokens)

    def teardown(self) -> None:
        if not hasattr(self, "cache"):
            return
        for seq in self.pending:
            assert self.reservation is not None
            self.reservation.rollback(seq)
        for seq, tokens in self.tokens.items():
            self.cache.release(seq, tokens)
        for checkpoint, _ in self.checkpoints:
            self.cache.drop(checkpoint)
        self.cache.check_integrity()
        assert self.cache.usage().full.in_use == 0
        self.cache.forget_prefixes()
        self.cache.check_integrity()
        usage = self.cache.usage()
        assert usage.full.free == usage.full.total == self.pool.num_blocks
        assert usage.window is None or usage.window.free == self.pool.window_blocks
        assert self.mover is None or not self.mover.kept


class SlotMachine(CacheMachine):
    """A sequence has one block, its slot."""

    def shape(self, rng: random.Random) -> PoolShape:
        return PoolShape(rng.randint(1, 5), rng.randint(1, 40), paged=False)


class NoCopyMachine(CacheMachine):
    """Blocks, or slots, that cannot be copied."""

    def shape(self, rng: random.Random) -> PoolShape:
        return PoolShape(rng.randint(1, 10), rng.randint(1, 12), can_copy=False, paged=rng.random() < 0.5)


class WindowMachine(CacheMachine):
    """Some layers see a window."""

    def shape(self, rng: random.Random) -> PoolShape:
        return PoolShape(
            rng.randint(1, 16),
            rng.randint(1, 6),
            window=rng.randint(1, 14),
            window_blocks=rng.randint(1, 12),
            can_copy=rng.random() < 0.75,
        )


class ExactMachine(CacheMachine):
    """The state is recurrent."""

    def shape(self, rng: random.Random) -> PoolShape:
        return PoolShape(
            rng.randint(1, 6),
            rng.randint(8, 60),
            exact=True,
            paged=False,
            can_copy=rng.random() < 0.6,
            snapshot_tokens=rng.choice([None, 1, 2, 4, 6]),
        )


MACHINES = [CacheMachine, SlotMachine, NoCopyMachine, WindowMachine, ExactMachine]
SHORT = settings(max_examples=25, stateful_step_count=60, deadline=None)

TestPages = CacheMachine.TestCase
TestPages.settings = SHORT
TestSlots = SlotMachine.TestCase
TestSlots.settings = SHORT
TestNoCopies = NoCopyMachine.TestCase
TestNoCopies.settings = SHORT
TestWindows = WindowMachine.TestCase
TestWindows.settings = SHORT
TestExactStates = ExactMachine.TestCase
TestExactStates.settings = SHORT


def run_campaign(kind: type[CacheMachine], seed: int, *, num_operations: int) -> CacheMachine:
    """The same operations in long runs, with the mix of a busy engine."""
    rng = random.Random(seed)
    machine = kind()
    machine.begin(rng.randrange(1_000_000))

    def pick() -> int:
        return rng.randrange(1_000_000)

    operations: list[tuple[int, Callable[[], None], Callable[[], bool]]] = [
        (6, lambda: machine.open(rng.randint(0, 5), pick()), lambda: True),
        (8, lambda: machine.extend(rng.randint(1, 12), pick()), lambda: bool(machine.tokens)),
        (3, lambda: machine.whole_step(pick()), lambda: bool(machine.tokens)),
        (8, lambda: machine.execute(pick(), rng.randint(0, 3)), lambda: bool(machine.pending)),
        (3, lambda: machine.draft(rng.randint(1, 12), pick()), lambda: bool(machine.pending)),
        (1, lambda: machine.withdraw(pick()), lambda: bool(machine.pending)),
        (4, machine.next_step, lambda: not machine.pending),
        (3, lambda: machine.fork(rng.randint(0, 5), pick()), lambda: bool(machine.tokens)),
        (2, lambda: machine.rewind(pick(), rng.randint(0, 12)), lambda: bool(machine.tokens)),
        (
            1,
            lambda: machine.checkpoint(pick()),
            lambda: bool(machine.tokens) and len(machine.checkpoints) < 2,
        ),
        (1, lambda: machine.restore(pick()), lambda: bool(machine.checkpoints)),
        (1, lambda: machine.drop(pick()), lambda: bool(machine.checkpoints)),
        (2, lambda: machine.swap(pick()), lambda: bool(machine.tokens)),
        (3, lambda: machine.release(pick(), rng.randint(0, 3)), lambda: bool(machine.tokens)),
        (1, lambda: machine.forget(pick()), lambda: rng.random() < 0.1),
    ]
    weights = [weight for weight, _, _ in operations]
    for _ in range(num_operations):
        _, operation, applies = rng.choices(operations, weights)[0]
        if applies():
            operation()
            machine.books_agree()
            machine.everyone_reads_back_their_own()
    machine.teardown()
    return machine


@pytest.mark.parametrize("kind", MACHINES, ids=lambda kind: kind.__name__)
def test_long_campaigns_lose_and_mix_up_nothing(kind: type[CacheMachine]) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seeds {seed} and the following")
    machines = [run_campaign(kind, seed + n, num_operations=300) for n in range(12)]
    assert sum(machine.cache.usage().full.allocated for machine in machines) > 100
    assert sum(machine.cache.usage().hit_tokens for machine in machines) > 0
