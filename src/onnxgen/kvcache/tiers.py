"""`Tiers`: where the content of blocks goes that leave the pool, each place with a budget.

::

    pool ──put──> host memory ──oldest──> disk folder ──oldest──> gone
      └───<─────────take────────────────────┘

Accounting only: a `BlockMover` holds the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from onnxgen.kvcache.base import FULL


@dataclass(frozen=True, slots=True)
class Piece:
    """The first ``num_tokens`` positions of a block."""

    block: int
    num_tokens: int
    group: int = FULL


class BlockMover(Protocol):
    """Moves content between a pool of blocks, host memory and disk. No method raises: a failure is an answer."""

    def save(self, key: int, pieces: Sequence[Piece]) -> int | None:
        """Copy what blocks hold to host memory, under a key; returns its bytes, or None if that failed."""
        ...

    def to_disk(self, key: int) -> bool:
        """Move what is kept under a key from host memory to disk; where that fails, it stays."""
        ...

    def load(self, key: int, pieces: Sequence[Piece]) -> bool:
        """Fill blocks with what is kept under a key, which stays; False: it cannot be read."""
        ...

    def forget(self, key: int) -> None:
        """Drop what is kept under a key, wherever it is."""
        ...


@dataclass(frozen=True, slots=True)
class TierUsage:
    """Numbers of the tiers.

    Attributes:
        host_bytes: In host memory.
        host_limit_bytes: The most that may be.
        disk_bytes: On disk.
        disk_limit_bytes: The most that may be.
        pinned_bytes: Of both, what does not leave to make room.
        num_items: Things kept.
        saved: Things that came so far.
        loaded: Things that went back to the pool.
        to_disk: Things that went from host memory to disk.
        dropped: Things that left to make room.
        refused: Things that found no room.
        failures: Things that were lost, or not taken, because memory or disk failed.
    """

    host_bytes: int
    host_limit_bytes: int
    disk_bytes: int
    disk_limit_bytes: int
    pinned_bytes: int
    num_items: int
    saved: int
    loaded: int
    to_disk: int
    dropped: int
    refused: int
    failures: int


class _Item:
    """What was put together: it moves, and leaves, as one."""

    __slots__ = ("key", "num_bytes", "on_drop", "pinned")

    def __init__(self, key: int, num_bytes: int, *, pinned: bool) -> None:
        self.key, self.num_bytes, self.pinned = key, num_bytes, pinned
        self.on_drop: Callable[[], None] | None = None


class _Place:
    """Items in the order in which they came, within a budget."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.items: dict[int, _Item] = {}
        self.num_bytes = self.pinned_bytes = 0

    def add(self, item: _Item) -> None:
        self.items[item.key] = item
        self._count(item, 1)

    def remove(self, item: _Item) -> None:
        del self.items[item.key]
        self._count(item, -1)

    def oldest(self) -> _Item | None:
        """The oldest that is not pinned."""
        return next((item for item in self.items.values() if not item.pinned), None)

    def _count(self, item: _Item, sign: int) -> None:
        self.num_bytes += sign * item.num_bytes
        self.pinned_bytes += sign * item.num_bytes * item.pinned


class Tiers:
    """Content of blocks outside the pool. For one thread.

    Args:
        mover: Holds the bytes.
        host_bytes: Budget of host memory; one thing more is there while it is on its way to disk.
        disk_bytes: Budget of the disk folder.
    """

    def __init__(self, mover: BlockMover, *, host_bytes: int, disk_bytes: int = 0) -> None:
        self._mover = mover
        self._host, self._disk = _Place(host_bytes), _Place(disk_bytes)
        self._last_key = 0
        self._saved = self._loaded = self._to_disk = self._dropped = self._refused = self._failures = 0

    def put(self, pieces: Sequence[Piece], *, on_drop: Callable[[], None] | None = None) -> int | None:
        """Keep what some blocks hold, as one thing; the blocks are not needed any more afterwards.

        Args:
            pieces: The blocks, and how much of each.
            on_drop: Called when it has left to make room for others, or because the disk failed. None: it is
                pinned and stays until `take` or `discard`.

        Returns:
            Its key; None: there is no room, or memory or disk failed, and nothing is kept.
        """
        self._last_key += 1
        num_bytes = self._mover.save(self._last_key, pieces)
        if num_bytes is None:
            self._failures += 1
            return None
        item = _Item(self._last_key, num_bytes, pinned=on_drop is None)
        self._host.add(item)
        if not self._could_hold(item) or not self._make_room(item):
            self._refused += 1
            self.discard(item.key)
            return None
        item.on_drop = on_drop
        self._saved += 1
        return item.key

    def take(self, key: int, pieces: Sequence[Piece]) -> bool:
        """Fill blocks with what was put, in the same order, and keep it no longer.

        Returns:
            False: it cannot be read. It is lost, and what the blocks hold means nothing.
        """
        assert key in self, f"asked for {key}, which is not kept"
        done = self._mover.load(key, pieces)
        self._loaded += done
        self._failures += not done
        self.discard(key)
        return done

    def discard(self, key: int) -> None:
        """Keep a thing no longer. Keys that are not kept are no matter."""
        for place in (self._host, self._disk):
            item = place.items.get(key)
            if item is not None:
                place.remove(item)
                self._mover.forget(key)

    def __contains__(self, key: int) -> bool:
        return key in self._host.items or key in self._disk.items

    def usage(self) -> TierUsage:
        """The numbers of this moment."""
        host, disk = self._host, self._disk
        return TierUsage(
            host_bytes=host.num_bytes,
            host_limit_bytes=host.limit_bytes,
            disk_bytes=disk.num_bytes,
            disk_limit_bytes=disk.limit_bytes,
            pinned_bytes=host.pinned_bytes + disk.pinned_bytes,
            num_items=len(host.items) + len(disk.items),
            saved=self._saved,
            loaded=self._loaded,
            to_disk=self._to_disk,
            dropped=self._dropped,
            refused=self._refused,
            failures=self._failures,
        )

    def _could_hold(self, item: _Item) -> bool:
        """Whether there would be room if all that is not pinned left: else none of it should."""
        host, disk = self._host, self._disk
        pinned = host.pinned_bytes + disk.pinned_bytes + (0 if item.pinned else item.num_bytes)
        largest = max(host.limit_bytes, disk.limit_bytes)
        return item.num_bytes <= largest and pinned <= host.limit_bytes + disk.limit_bytes

    def _make_room(self, new: _Item) -> bool:
        """Move the oldest out of host memory until the rest fits; False: the new item finds no room."""
        host = self._host
        while host.num_bytes > host.limit_bytes:
            if not any(self._leave_host(item, new) for item in list(host.items.values())):
                return False
        return new.key in self

    def _leave_host(self, item: _Item, new: _Item) -> bool:
        """Move an item to disk, or drop it where it may be dropped; False: it stays."""
        host, disk = self._host, self._disk
        if item.key not in host.items:  # what was dropped before has taken it along
            return True
        if item.num_bytes <= disk.limit_bytes - disk.pinned_bytes:
            while item.num_bytes > disk.limit_bytes - disk.num_bytes:
                oldest = disk.oldest()
                assert oldest is not None
                self._drop(oldest)
            if item.key not in host.items:
                return True
            if self._mover.to_disk(item.key):
                self._to_disk += 1
                host.remove(item)
                disk.add(item)
                return True
            self._failures += 1
        if item.pinned:
            return False
        if item is new:
            host.remove(item)
            self._mover.forget(item.key)
        else:
            self._drop(item)
        return True

    def _drop(self, item: _Item) -> None:
        self.discard(item.key)
        self._dropped += 1
        if item.on_drop is not None:
            item.on_drop()

    def check_integrity(self) -> None:
        """Check that sums and budgets hold.

        Raises:
            AssertionError: Saying what does not.
        """
        assert not self._host.items.keys() & self._disk.items.keys(), "something is kept in two places"
        for name, place in (("host", self._host), ("disk", self._disk)):
            items = place.items.values()
            total, pinned = sum(i.num_bytes for i in items), sum(i.num_bytes for i in items if i.pinned)
            books = f"{name}: {total} bytes of {place.limit_bytes}, {pinned} pinned"
            assert (place.num_bytes, place.pinned_bytes) == (total, pinned), (
                f"{books}; counted {place.num_bytes} and {place.pinned_bytes}"
            )
            assert total <= place.limit_bytes, books
