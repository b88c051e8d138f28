"""The prefix index against a naive model, a dictionary of everything published."""

import itertools
import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from onnxgen.kvcache.base import NO_BLOCK, WINDOW
from onnxgen.kvcache.block_keys import blake2b, num_common, pack, unpack
from onnxgen.kvcache.prefix_entry import Entry
from onnxgen.kvcache.prefix_index import PrefixIndex

SIZE = 3


def weak(data):
    """A hash of three values: nearly every key is shared."""
    return bytes([sum(data) % 3])


class Held:
    """A sequence that holds blocks, in both groups where there are two."""

    def __init__(self, extra):
        self.extra = extra
        self.tokens: list[int] = []
        self.blocks: list[tuple[int, int]] = []
        self.entries: list[Entry] = []


class Pool:
    """Reference counts over one index, as the cache manager keeps them."""

    def __init__(self, index, *, windows=False):
        self.index, self.windows = index, windows
        self.refs: dict[tuple[int, int], int] = {}  # (group, block)
        self.numbers = itertools.count()
        self.known: dict[Entry, tuple[object, tuple[int, ...]]] = {}

    def new_block(self):
        blocks = next(self.numbers), next(self.numbers) if self.windows else NO_BLOCK
        for group, block in enumerate(blocks):
            if block != NO_BLOCK:
                self.refs[group, block] = 1
        return blocks

    def retain(self, group, block):
        self.refs[group, block] += 1
        self.index.busy(block, group=group)

    def release(self, group, block):
        self.refs[group, block] -= 1
        if not self.refs[group, block]:
            del self.refs[group, block]
        elif self.refs[group, block] == 1 and self.index.entry_of(block, group=group):
            self.index.idle(block, group=group)

    def release_all(self, blocks):
        for group, block in enumerate(blocks):
            if block != NO_BLOCK:
                self.release(group, block)

    def forget(self, entries):
        for e in entries:
            assert not e.indexed
            del self.known[e]
            self.release_all((e.block, e.window_block))

    def open(self, tokens, extra):
        """A sequence that starts with what the index knows of some tokens in whole, resident entries."""
        held = Held(extra)
        hit = self.index.find(tokens, extra=extra)
        self.index.touch(hit)
        for e in hit.entries:
            if not e.resident:
                blocks = self.new_block()
                self.index.load(e, blocks)
                for group, block in enumerate(blocks):
                    if block != NO_BLOCK:
                        self.refs[group, block] += 1
            else:
                self.retain(0, e.block)
                if e.window_block != NO_BLOCK:
                    self.retain(WINDOW, e.window_block)
            held.blocks.append((e.block, e.window_block))
            held.entries.append(e)
            held.tokens += e.tokens
        return held

    def grow(self, held, tokens):
        """Write tokens at the end and publish each block that has changed, partial ones too."""
        if any(not e.resident for e in held.entries):  # somebody else's equal block went: publish all again
            held.entries.clear()
        elif len(held.tokens) % SIZE:
            del held.entries[len(held.tokens) // SIZE :]
        first = len(held.entries)
        held.tokens += tokens
        while len(held.blocks) * SIZE < len(held.tokens):
            held.blocks.append(self.new_block())
        for at in range(first, len(held.blocks)):
            content = held.tokens[at * SIZE : (at + 1) * SIZE]
            parent = held.entries[-1] if held.entries else None
            done = self.index.publish(parent, content, held.blocks[at], extra=held.extra)
            if done.took_block:
                self.refs[0, held.blocks[at][0]] += 1
            if done.took_window_block:
                self.refs[WINDOW, held.blocks[at][1]] += 1
            if done.entry.content == pack(content):
                self.known[done.entry] = held.extra, tuple(held.tokens[: at * SIZE + len(content)])
            held.entries.append(done.entry)
            self.forget(done.dropped)

    def close(self, held):
        for blocks in reversed(held.blocks):
            self.release_all(blocks)

    def is_busy(self, entry):
        return self.refs.get((0, entry.block), 1) > 1 or any(self.is_busy(e) for e in entry.children)

    def may_leave(self):
        """Entries in the pool that nobody holds, nor any after them."""
        return [e for e in self.known if e.resident and not self.is_busy(e)]

    def expected_hit(self, tokens, extra, *, whole):
        known = [k for e, k in self.known.items() if k[0] == extra]
        assert all(e.indexed for e in self.known)
        if whole:
            return max((len(k) for _, k in known if tuple(tokens[: len(k)]) == k), default=0)
        return max((num_common(pack(k), pack(tokens)) for _, k in known), default=0)

    def check(self):
        self.index.check_integrity()
        assert len(self.index) == len(self.known)
        assert self.index.num_evictable == len(self.may_leave())
        idle_windows = [e for e in self.known if self.refs.get((WINDOW, e.window_block)) == 1]
        assert self.index.num_evictable_windows == len(idle_windows)
        for entry, (extra, tokens) in self.known.items():
            chain = [entry]
            while chain[0].parent.parent is not None:
                chain.insert(0, chain[0].parent)
            assert tuple(t for e in chain for t in e.tokens) == tokens
            assert chain[0].parent.extra == extra


TOKENS = st.lists(st.integers(0, 1), max_size=9)
EXTRAS = st.sampled_from([None, None, "adapter", 1, "1"])


class Machine(RuleBasedStateMachine):
    whole, digest, windows = False, staticmethod(blake2b), False
    sequences = Bundle("sequences")

    def __init__(self):
        super().__init__()
        self.index = PrefixIndex(SIZE, whole=self.whole, digest=self.digest)
        self.pool = Pool(self.index, windows=self.windows)
        self.open: list[Held] = []

    @rule(target=sequences, tokens=TOKENS, extra=EXTRAS)
    def begin(self, tokens, extra):
        held = self.pool.open(tokens, extra)
        self.open.append(held)
        self.pool.grow(held, tokens[len(held.tokens) :])
        return held

    @rule(held=sequences, tokens=TOKENS)
    def grow(self, held, tokens):
        self.pool.grow(held, tokens)

    @rule(held=consumes(sequences))
    def finish(self, held):
        self.pool.close(held)
        self.open.remove(held)

    @rule(tokens=TOKENS, extra=EXTRAS, limit=st.none() | st.integers(0, 9))
    def find(self, tokens, extra, limit):
        hit = self.index.find(tokens, extra=extra, limit=limit)
        wanted = tokens if limit is None else tokens[:limit]
        assert hit.num_tokens == self.pool.expected_hit(wanted, extra, whole=self.whole)
        assert [t for e in hit.entries for t in e.tokens] == wanted[: len(hit.entries) * SIZE]
        assert hit.num_tokens == len(hit.entries) * SIZE + hit.tail_tokens
        assert (hit.tail is None) == (hit.tail_tokens == 0)
        if hit.tail is not None:
            assert hit.tail.tokens[: hit.tail_tokens] == wanted[len(hit.entries) * SIZE :][: hit.tail_tokens]
            assert not self.whole or hit.tail_tokens == hit.tail.num_tokens

    @rule(tokens=TOKENS, extra=EXTRAS)
    def touch(self, tokens, extra):
        self.index.touch(self.index.find(tokens, extra=extra))

    @rule(to_tier=st.booleans())
    def evict(self, to_tier):
        coldest = self.index.coldest()
        tails = [e for e in self.pool.may_leave() if not any(c.resident for c in e.children)]
        assert (coldest in tails) if tails else coldest is None
        if coldest is None:
            return
        assert coldest.used == min(e.used for e in tails)
        if to_tier:
            self.pool.release_all(self.index.unload(coldest))
        else:
            self.pool.forget(self.index.remove(coldest))

    @rule()
    def evict_window(self):
        coldest = self.index.coldest_window()
        idle = [e for e in self.pool.known if self.pool.refs.get((WINDOW, e.window_block)) == 1]
        assert (coldest in idle) if idle else coldest is None
        if coldest is not None:
            assert coldest.used == min(e.used for e in idle)
            self.pool.release(WINDOW, self.index.give_window_back(coldest))

    @rule(which=st.integers(0, 99))
    def remove_any(self, which):
        known = list(self.pool.known)
        if known:
            self.pool.forget(self.index.remove(known[which % len(known)]))

    @rule()
    def clear(self):
        self.pool.forget(self.index.clear())
        assert len(self.index) == self.index.num_blocks == 0

    @invariant()
    def agree(self):
        self.pool.check()

    def teardown(self):
        for held in self.open:
            self.pool.close(held)
        self.pool.check()
        self.pool.forget(self.index.clear())
        assert not self.pool.refs


class WholeMachine(Machine):
    whole = True


class CollidingMachine(Machine):
    digest = staticmethod(weak)


class WindowMachine(Machine):
    windows = True


_SETTINGS = settings(max_examples=60, stateful_step_count=40, deadline=None)
for _machine in (Machine, WholeMachine, CollidingMachine, WindowMachine):
    _machine.TestCase.settings = _SETTINGS
TestIndex = Machine.TestCase
TestWholeEntries = WholeMachine.TestCase
TestCollidingKeys = CollidingMachine.TestCase
TestWindows = WindowMachine.TestCase


@pytest.fixture
def pool():
    return Pool(PrefixIndex(SIZE))


def sequence(pool, tokens, extra=None):
    held = pool.open(tokens, extra)
    pool.grow(held, tokens[len(held.tokens) :])
    return held


def evicted(pool):
    entry = pool.index.coldest()
    tokens = pool.known[entry][1]
    pool.forget(pool.index.remove(entry))
    return list(tokens)


def test_the_tail_of_what_was_used_longest_ago_leaves_first(pool):
    for tokens in ([1] * 6, [2] * 6, [3] * 4):
        pool.close(sequence(pool, tokens))
    pool.index.touch(pool.index.find([1] * 6))
    assert [evicted(pool) for _ in range(6)] == [[2] * 6, [2] * 3, [3] * 4, [3] * 3, [1] * 6, [1] * 3]
    assert pool.index.coldest() is None


def test_what_sequences_hold_stays_and_so_does_what_leads_to_it(pool):
    running = sequence(pool, [1] * 6)
    pool.close(sequence(pool, [1] * 3 + [2] * 3))
    assert evicted(pool) == [1, 1, 1, 2, 2, 2]
    assert pool.index.coldest() is None
    pool.close(running)
    assert pool.index.num_evictable == 2


def test_equal_content_is_kept_once_and_leaves_with_nobody_holding_it(pool):
    one, two = Held(None), Held(None)
    pool.grow(one, [1, 2, 3, 4])
    pool.grow(two, [1, 2, 3, 4])
    assert pool.index.num_blocks == 2
    assert two.blocks != one.blocks
    assert two.entries == one.entries
    pool.close(one)
    assert pool.index.num_evictable == 2


def test_a_partial_block_that_is_filled_stays_one_entry(pool):
    held = sequence(pool, [5])
    entry = held.entries[0]
    pool.grow(held, [6])
    pool.grow(held, [7, 8])
    assert held.entries[0] is entry
    assert entry.tokens == [5, 6, 7]
    assert len(pool.index) == 2


def test_a_beginning_of_what_is_known_is_not_kept_beside_it(pool):
    short, long = Held(None), Held(None)
    pool.grow(short, [5, 6])
    pool.grow(long, [5, 6, 7])
    assert [e.tokens for e in pool.known] == [[5, 6, 7]]
    pool.grow(Held(None), [5])
    assert [e.tokens for e in pool.known] == [[5, 6, 7]]


def test_recurrent_states_of_one_sequence_are_kept_at_several_lengths():
    pool = Pool(PrefixIndex(100, whole=True))
    for length in (10, 40, 25):
        done = pool.index.publish(None, list(range(length)), pool.new_block())
        assert done.took_block
    for asked, found in ((9, 0), (10, 10), (24, 10), (25, 25), (39, 25), (40, 40), (99, 40)):
        assert pool.index.find(list(range(100)), limit=asked).num_tokens == found
    other = [*range(30), *range(50, 99)]
    assert pool.index.find(other).num_tokens == 25


def test_what_leads_to_a_tail_was_used_when_the_tail_was(pool):
    pool.close(sequence(pool, [1] * 6))
    pool.close(sequence(pool, [2] * 3))
    (tail,) = pool.index.find([1] * 6).entries[1:]
    pool.index.busy(tail.block)
    pool.index.idle(tail.block)
    assert [evicted(pool) for _ in range(3)] == [[2] * 3, [1] * 6, [1] * 3]


def test_a_beginning_of_what_a_tier_holds_takes_no_block(pool):
    pool.close(sequence(pool, [5, 6]))
    entry = pool.index.coldest()
    pool.release_all(pool.index.unload(entry))
    done = pool.index.publish(None, [5], pool.new_block())
    assert done.entry is entry
    assert not done.took_block
    assert not entry.resident
    done = pool.index.publish(None, [5, 6], pool.new_block())
    assert done.entry is entry
    assert done.took_block


def test_a_windows_block_follows_the_entry_that_its_sequence_fills():
    pool = Pool(PrefixIndex(SIZE), windows=True)
    one, two = Held(None), Held(None)
    pool.grow(one, [5])
    pool.release(WINDOW, pool.index.give_window_back(one.entries[0]))
    pool.grow(two, [5])
    assert (two.entries[0].block, two.entries[0].window_block) == (one.blocks[0][0], two.blocks[0][1])
    pool.grow(two, [6])
    assert (two.entries[0].block, two.entries[0].window_block) == two.blocks[0]
    pool.check()


def test_what_else_matters_keeps_sequences_apart(pool):
    sequence(pool, [1, 2, 3], extra=("lora", 1))
    assert pool.index.find([1, 2, 3]).num_tokens == 0
    assert pool.index.find([1, 2, 3], extra=("lora", 2)).num_tokens == 0
    assert pool.index.find([1, 2, 3], extra=("lora", 1)).num_tokens == 3


def test_salts_that_were_forgotten_leave_nothing_behind(pool):
    for salt in range(50):
        pool.close(sequence(pool, [1, 2, 3, 4], extra=salt))
        pool.forget(pool.index.clear())
    assert not pool.index._tree._roots
    assert len(pool.index._tails._heap) < 100


def test_colliding_keys_are_counted_and_never_believed():
    pool = Pool(PrefixIndex(SIZE, digest=lambda data: b"same"))
    sequence(pool, [1, 2, 3])
    assert pool.index.find([3, 2, 1]).num_tokens == 0
    assert pool.index.collisions > 0
    sequence(pool, [3, 2, 1, 1, 2, 3])
    assert pool.index.find([3, 2, 1, 1, 2, 3]).num_tokens == 6


def test_many_uses_and_finished_sequences_do_not_pile_up(pool):
    rng = random.Random()
    for _ in range(300):
        held = sequence(pool, [rng.randrange(3) for _ in range(7)])
        pool.close(held)
        while pool.index.num_evictable > 10:
            evicted(pool)
    assert len(pool.index._tails._heap) <= 2 * 10 + 64
    pool.check()


def test_tokens_of_any_size_are_packed_and_unpacked():
    tokens = [0, 1, 2**31, 2**40, -1]
    assert unpack(pack(tokens)) == tokens
    assert num_common(pack(tokens), pack([*tokens[:3], 7])) == 3
