"""`Replay`: an engine's run, followed event by event."""

from __future__ import annotations

from collections.abc import Callable

from onnxgen.conformance.engine_trace.lives import Lives
from onnxgen.conformance.engine_trace.model import Fields, State, World
from onnxgen.conformance.engine_trace.pool import Pool
from onnxgen.conformance.engine_trace.steps import Steps
from onnxgen.conformance.engine_trace.tiers import Tiers


class Replay:
    """Follows a run with a model of its own, and notes every violation.

    Args:
        starved_steps: A running answer may miss this many steps in a row that compute prompts.

    Attributes:
        world: What the events so far came to, violations included.
    """

    def __init__(self, *, starved_steps: int) -> None:
        self.world = World()
        self._steps = Steps(self.world, starved_steps=starved_steps)
        self._tiers = Tiers(self.world)
        self._used: int | None = None
        self._closed = False
        self._lives = Lives(self.world)
        lives, steps, tiers = self._lives, self._steps, self._tiers
        self._followers: dict[str, Callable[[Fields], None]] = {
            "open": self._open,
            "usage": self._usage,
            "close": self._close,
            "submit": lives.submit,
            "admit": lives.admit,
            "restart": lives.restart,
            "fork": lives.fork,
            "preempt": lives.preempt,
            "resume": lives.resume,
            "sample": lives.sample,
            "forced": lives.forced,
            "finish": lives.finish,
            "release": lives.release,
            "budgets": steps.set_budgets,
            "draft": steps.draft,
            "reserve": steps.reserve,
            "execute": steps.execute,
            "executed": steps.executed,
            "failed": steps.failed,
            "accepted": steps.accepted,
            "commit": steps.commit,
            "rollback": steps.rollback,
            "swap_out": tiers.swap_out,
            "swap_in": tiers.swap_in,
            "swap_lost": tiers.swap_lost,
        }

    @property
    def num_steps(self) -> int:
        """Steps that the backend did so far."""
        return self._steps.num_done

    def follow(self, line: int, event: str, fields: Fields) -> None:
        """Follow one event, whose name is known and whose fields have the right types."""
        world = self.world
        world.line = line
        if not world.pools and event != "open":
            world.note(
                "version", f"the first event is {event!r}; it must be 'open', which has version and pool"
            )
            world.pools = [Pool(0, 1, window=None, exact=False)] * 2
        if self._closed:
            world.note("close", f"{event!r} comes after the engine shut down")
        if event == "reserve":
            self._tiers.check_loaded()
        if event not in ("finish", "release"):
            self._lives.check_gone()
        self._steps.expect(event)
        self._followers[event](fields)

    def end(self, line: int) -> None:
        """The file ended."""
        self.world.line = line
        if not self._closed:
            self.world.note("close", "the trace ends without 'close': the engine died, or was not closed")

    def _open(self, f: Fields) -> None:
        if self.world.pools:
            return self.world.note("version", "the trace is opened a second time")
        self.world.pools = [
            Pool(f["num_blocks"], f["block_size"], window=None, exact=f["exact"]),
            Pool(f["window_blocks"], f["block_size"], window=f["window"], exact=f["exact"]),
        ]

    def _usage(self, f: Fields) -> None:
        total, held = self.world.pools[0].num_blocks, self.world.pools[0].num_held
        self._used = f["used"]
        books = f"{f['used']} blocks used, {f['cached']} cached, {f['free']} free"
        if f["used"] + f["cached"] + f["free"] != total:
            self.world.note("leak", f"{books}: that is not {total}")
        if f["used"] != held:
            self.world.note("leak", f"{books}; the sequences hold {held}")

    def _close(self, f: Fields) -> None:
        del f
        self._closed = True
        world = self.world
        for number, request in world.requests.items():
            missing = [i for i in range(request.samples) if i not in request.finished]
            if missing:
                world.note("finish", f"request {number} has {request.samples} samples; {missing} never ended")
        for s in world.sequences.values():
            if s.state is State.PREEMPTED and not world.has_ended(s):
                world.note("lost", f"{s.name} was preempted and neither came back nor ended")
            if s.state is not State.GONE:
                world.note("leak", f"{s.name} was never released")
        if self._used:
            world.note("leak", f"the engine shuts down with {self._used} used blocks")
