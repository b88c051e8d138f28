"""Tiers against a naive model: what is kept is kept whole, within its budgets, and oldest things leave first."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from onnxgen.kvcache.tiers import Piece, Tiers


class Mover:
    """Keeps the numbers of blocks in place of their content, one byte a token; fails when told to."""

    def __init__(self):
        self.memory, self.disk = {}, {}
        self.saving = self.writing = self.reading = True
        self.loaded = None

    def save(self, key, pieces):
        if not self.saving:
            return None
        self.memory[key] = [p.block for p in pieces]
        return sum(p.num_tokens for p in pieces)

    def to_disk(self, key):
        if self.writing:
            self.disk[key] = self.memory.pop(key)
        return self.writing

    def load(self, key, pieces):
        self.loaded = self.memory[key] if key in self.memory else self.disk[key]
        assert len(pieces) == len(self.loaded)
        return self.reading

    def forget(self, key):
        assert (self.memory.pop(key, None) is None) != (self.disk.pop(key, None) is None)


def thing(*sizes, first=0):
    return [Piece(first + i, size) for i, size in enumerate(sizes)]


class Machine(RuleBasedStateMachine):
    keys = Bundle("keys")

    def __init__(self):
        super().__init__()
        self.mover = Mover()
        self.tiers = Tiers(self.mover, host_bytes=20, disk_bytes=30)
        self.kept: dict[int, list[Piece]] = {}  # what must be there
        self.pinned: set[int] = set()
        self.dropped: set[int] = set()
        self.order: list[int] = []

    @rule(target=keys, sizes=st.lists(st.integers(1, 12), min_size=1, max_size=3), pinned=st.booleans())
    def put(self, sizes, pinned):
        pieces = thing(*sizes, first=len(self.order) * 10)
        box = []

        def on_drop():
            (key,) = box
            assert key in self.kept, "dropped twice, or never kept"
            del self.kept[key]
            self.dropped.add(key)

        key = self.tiers.put(pieces, on_drop=None if pinned else on_drop)
        self.order.append(key)
        if key is not None:
            box.append(key)
            self.kept[key] = pieces
            if pinned:
                self.pinned.add(key)
        return key

    @rule(key=consumes(keys))
    def take(self, key):
        if key not in self.kept:
            return
        done = self.tiers.take(key, self.kept[key])
        assert done == self.mover.reading
        assert not done or self.mover.loaded == [p.block for p in self.kept[key]]
        del self.kept[key]

    @rule(key=consumes(keys))
    def discard(self, key):
        if key is not None:
            self.tiers.discard(key)
            self.kept.pop(key, None)

    @rule(which=st.sampled_from(["saving", "writing", "reading"]), works=st.booleans())
    def fail(self, which, works):
        setattr(self.mover, which, works)

    @invariant()
    def agree(self):
        self.tiers.check_integrity()
        assert self.kept.keys() == self.mover.memory.keys() | self.mover.disk.keys()
        assert all(key in self.tiers for key in self.kept)
        usage = self.tiers.usage()
        assert usage.num_items == len(self.kept)
        sizes = {key: sum(p.num_tokens for p in pieces) for key, pieces in self.kept.items()}
        assert usage.host_bytes == sum(sizes[key] for key in self.mover.memory)
        assert usage.disk_bytes == sum(sizes[key] for key in self.mover.disk)
        assert usage.pinned_bytes == sum(sizes[key] for key in self.pinned & self.kept.keys())
        assert usage.dropped == len(self.dropped)

    def teardown(self):
        for key in list(self.kept):
            self.tiers.discard(key)
        assert not self.mover.memory
        assert not self.mover.disk


Machine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestTiers = Machine.TestCase


def tiers_of(host, disk=0):
    mover, dropped = Mover(), []
    tiers = Tiers(mover, host_bytes=host, disk_bytes=disk)

    def put(name, size, *, pinned=False):
        return tiers.put(thing(size), on_drop=None if pinned else lambda: dropped.append(name))

    return tiers, mover, put, dropped


def test_the_oldest_goes_to_disk_and_from_there_away():
    _, mover, put, dropped = tiers_of(20, 20)
    keys = [put(name, 10) for name in "abcd"]
    assert list(mover.memory) == keys[2:]
    assert list(mover.disk) == keys[:2]
    put("e", 15)
    assert dropped == ["a", "b"]
    assert list(mover.disk) == keys[2:]


def test_what_is_pinned_stays_however_old_it_is():
    tiers, _, put, dropped = tiers_of(20)
    pinned = put("pinned", 12, pinned=True)
    for name in "abc":
        put(name, 8)
    assert dropped == ["a", "b"]
    assert pinned in tiers
    assert put("more", 9, pinned=True) is None
    assert tiers.usage().refused == 1
    assert dropped == ["a", "b"], "what cannot fit must not push anything out"


def test_pinned_things_go_to_disk_when_they_are_the_oldest():
    tiers, mover, put, _ = tiers_of(10, 10)
    first, second = put("first", 10, pinned=True), put("second", 10, pinned=True)
    assert (list(mover.disk), list(mover.memory)) == ([first], [second])
    assert put("third", 1, pinned=True) is None
    assert tiers.take(first, thing(10))
    assert tiers.take(second, thing(10))
    assert tiers.usage().num_items == 0


def test_a_disk_alone_is_enough():
    tiers, mover, put, _ = tiers_of(0, 10)
    key = put("a", 10)
    assert list(mover.disk) == [key]
    assert tiers.usage().host_bytes == 0


def test_a_failing_disk_costs_what_may_leave_and_nothing_else():
    tiers, mover, put, dropped = tiers_of(10, 100)
    mover.writing = False
    pinned = put("pinned", 5, pinned=True)
    put("a", 5)
    put("b", 5)
    assert dropped == ["a"]
    assert pinned in tiers
    assert put("more", 6, pinned=True) is None
    assert pinned in tiers
    assert tiers.usage().failures > 0


def test_what_cannot_be_read_is_lost_once():
    tiers, mover, put, dropped = tiers_of(10)
    key = put("a", 5)
    mover.reading = False
    assert not tiers.take(key, thing(5))
    assert key not in tiers
    assert dropped == []
    assert (tiers.usage().failures, tiers.usage().loaded) == (1, 0)


def test_dropping_one_thing_may_take_others_along():
    tiers, _, put, _ = tiers_of(20)
    child = put("child", 10)
    tiers.discard(child)
    keys = []
    keys.append(tiers.put(thing(10), on_drop=lambda: tiers.discard(keys[1])))
    keys.append(put("follows", 10))
    assert put("new", 5) is not None
    assert tiers.usage().num_items == 1
    tiers.check_integrity()
