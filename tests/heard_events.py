"""A listener that keeps what it hears, and lets tests wait for it."""

from __future__ import annotations

import threading

WAIT_S = 60.0
"""How long a test waits for what should come at once: machines may be busy."""


class Heard:
    """Keeps batches of events."""

    def __init__(self):
        self.batches = []
        self._news = threading.Condition()

    def __call__(self, events):
        with self._news:
            self.batches.append(list(events))
            self._news.notify_all()

    @property
    def events(self):
        return [event for batch in self.batches for event in batch]

    def of(self, request_id, index=0):
        return [e for e in self.events if (e.request_id, e.index) == (request_id, index)]

    def tokens(self, request_id, index=0):
        return [e.token_id for e in self.of(request_id, index) if e.token_id is not None]

    def end(self, request_id, index=0):
        """The last event of a sample; waits for it."""
        with self._news:
            assert self._news.wait_for(
                lambda: any(e.finish_reason for e in self.of(request_id, index)), WAIT_S
            )
        ends = [e for e in self.of(request_id, index) if e.finish_reason]
        assert len(ends) == 1
        assert self.of(request_id, index)[-1] is ends[0]
        return ends[0]

    def wait_for_tokens(self, request_id, count, index=0):
        with self._news:
            assert self._news.wait_for(lambda: len(self.tokens(request_id, index)) >= count, WAIT_S)
