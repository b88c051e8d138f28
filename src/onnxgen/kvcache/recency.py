"""`Recency`: which of the entries that may leave was used the longest time ago."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from onnxgen.kvcache.prefix_entry import Entry

_SLACK = 64


class Recency:
    """A heap that is put right when it is asked, so that using an entry costs nothing here.

    An entry lies in it at most once, under a time that is its last use or before it.

    Args:
        may_leave: Whether an entry still counts.
    """

    def __init__(self, may_leave: Callable[[Entry], bool]) -> None:
        self._may_leave = may_leave
        self._heap: list[tuple[int, int, int, Entry]] = []
        self._queued: set[Entry] = set()
        self._number = 0
        self._compact_at = _SLACK

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._queued

    def offer(self, entry: Entry) -> None:
        """An entry may leave from now on."""
        if entry in self._queued:
            return
        self._queued.add(entry)
        heapq.heappush(self._heap, self._ranked(entry))
        if len(self._heap) > self._compact_at:
            self._heap = [self._ranked(e) for _, _, _, e in self._heap if self._may_leave(e)]
            heapq.heapify(self._heap)
            self._queued = {e for _, _, _, e in self._heap}
            self._compact_at = 2 * len(self._heap) + _SLACK

    def coldest(self) -> Entry | None:
        """The entry used longest ago of those that may leave; of equals the one nearest to the beginning."""
        while self._heap:
            used, _, _, entry = self._heap[0]
            if not self._may_leave(entry):
                heapq.heappop(self._heap)
                self._queued.discard(entry)
            elif entry.used != used:
                heapq.heapreplace(self._heap, self._ranked(entry))
            else:
                return entry
        return None

    def _ranked(self, entry: Entry) -> tuple[int, int, int, Entry]:
        self._number += 1
        return entry.used, entry.start, self._number, entry
