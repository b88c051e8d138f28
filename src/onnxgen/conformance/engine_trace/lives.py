"""`Lives`: requests and sequences from their submission to their end."""

from __future__ import annotations

from collections.abc import Sequence

from onnxgen.conformance.engine_trace.model import Fields, State, TracedRequest, TracedSequence, World


class Lives:
    """Follows the events of requests and sequences; each method is the event of its name."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._just_gone: list[TracedSequence] = []

    def submit(self, f: Fields) -> None:
        """A request came in, with the sequence that computes its prompt."""
        if f["request"] in self._world.requests:
            self._world.note("lifecycle", f"request {f['request']} was submitted before")
        self._world.requests[f["request"]] = TracedRequest(f["samples"], {0})
        s = TracedSequence(f["seq"], f["request"], 0, f["extra"], len(f["prompt"]), f["min_chunk_end"])
        self._add(s, f["prompt"])

    def fork(self, f: Fields) -> None:
        """A sample gets a sequence of its own, which shares blocks or waits."""
        world = self._world
        parent = world.find(f["parent"])
        if parent is None:
            return
        request = world.requests[parent.request]
        if not 0 < f["index"] < request.samples or f["index"] in request.indexes:
            world.note("lifecycle", f"{parent.name} forks into sample {f['index']} of {request.samples}")
        request.indexes.add(f["index"])
        if f["length"] > parent.length:
            world.note("context", f"{parent.name} holds {parent.length} tokens, a fork shares {f['length']}")
        like_parent = parent.extra, parent.num_prompt, parent.min_chunk_end
        child = TracedSequence(f["child"], parent.request, f["index"], *like_parent)
        self._add(child, parent.tokens[: max(parent.length, parent.num_prompt)])
        child.has_logits = parent.length >= len(child.tokens)
        child.state = State.PREEMPTED
        if f["runs"]:
            self._start(child, f["length"], [f["blocks"], f["window"]])

    def admit(self, f: Fields) -> None:
        """A waiting sequence runs."""
        s = self._world.find(f["seq"], State.WAITING)
        if s is not None:
            self._run(s, f)

    def resume(self, f: Fields) -> None:
        """A preempted sequence runs again."""
        s = self._world.find(f["seq"], State.PREEMPTED)
        if s is not None:
            self._run(s, f)

    def restart(self, f: Fields) -> None:
        """A sequence is computed again, because its content depends on something else now, or is unknown."""
        s = self._world.find(f["seq"])
        if s is None:
            return
        runs = s.state is State.RUNNING
        if runs:
            self._stop(s, State.WAITING)
        s.extra, s.min_chunk_end, s.has_logits = f["extra"], f["min_chunk_end"], False
        tokens, s.tokens, s.chain = s.tokens, [], []
        self._world.append(s, tokens)
        if runs:
            self._run(s, f)

    def preempt(self, f: Fields) -> None:
        """A running sequence gave up its blocks."""
        s = self._world.find(f["seq"], State.RUNNING)
        if s is not None:
            self._stop(s, State.PREEMPTED)

    def sample(self, f: Fields) -> None:
        """Sequences go on with a token."""
        for seq, token in f["tokens"]:
            s = self._world.find(seq)
            if s is None:
                continue
            if self._world.has_ended(s):
                self._world.note("after_finish", f"{s.name} gets a token after its end")
            if not s.has_logits:
                found = f"{s.length} of its {len(s.tokens)} tokens are computed, or it got one already"
                self._world.note("sample", f"{s.name} gets a token, but {found}")
            s.has_logits = False
            self._world.append(s, [token])

    def forced(self, f: Fields) -> None:
        """A sequence goes on with tokens that no logits were needed for."""
        s = self._world.find(f["seq"])
        if s is None:
            return
        if self._world.has_ended(s):
            self._world.note("after_finish", f"{s.name} gets forced tokens after its end")
        s.has_logits = False
        self._world.append(s, f["tokens"])

    def finish(self, f: Fields) -> None:
        """A sample's last event was told."""
        index, request = f["index"], self._world.requests.get(f["request"])
        if request is None:
            return self._world.note("finish", f"request {f['request']} ends, but was never submitted")
        if not 0 <= index < request.samples:
            self._world.note(
                "finish", f"sample {index} of request {f['request']} ends; it has {request.samples}"
            )
        if index in request.finished:
            self._world.note("finish", f"sample {index} of request {f['request']} ends again: {f['reason']}")
        request.finished.add(index)
        unforked = {*range(request.samples)} - request.indexes - request.finished
        stands_for_it = [
            s for s in self._world.of(f["request"]) if s.index == index and s.state is not State.GONE
        ]
        if unforked and stands_for_it:
            # until a prompt is computed one sequence stands for all samples that have not ended
            stands_for_it[0].index = min(unforked)
            request.indexes.add(min(unforked))

    def release(self, f: Fields) -> None:
        """A sequence is gone."""
        s = self._world.find(f["seq"])
        if s is not None:
            self._stop(s, State.GONE)
            self._just_gone.append(s)

    def check_gone(self) -> None:
        """Whoever is gone has ended, and that was told before anything else happened."""
        for s in self._just_gone:
            if not self._world.has_ended(s):
                self._world.note("finish", f"{s.name} is gone, and its end was not told")
        self._just_gone.clear()

    def _add(self, s: TracedSequence, tokens: Sequence[int]) -> None:
        if s.id in self._world.sequences:
            self._world.note("lifecycle", f"sequence {s.id} is there already")
        self._world.add(s)
        self._world.append(s, tokens)

    def _run(self, s: TracedSequence, f: Fields) -> None:
        if not 0 <= f["cached"] < len(s.tokens):
            found = f"{f['cached']} of its {len(s.tokens)} tokens"
            self._world.note("context", f"{s.name} needs no computing of {found}; one must be left")
        self._start(s, f["cached"], [f["blocks"], f["window"]])

    def _start(self, s: TracedSequence, length: int, tables: list[list[int]]) -> None:
        """A sequence runs and relies on what its tables say: on all of ``length``, or on what needs no copy first."""
        world = self._world
        s.state, s.length = State.RUNNING, length
        world.running[s.id] = s
        if not world.in_range(s, tables):
            return
        s.tables = tables
        s.verified = min([length, *(len(t) * p.block_size for p, t in world.groups(tables))])
        for pool, table in world.groups(tables):
            if pool.first_hole(table, start=pool.seen_from(length), stop=s.verified) is not None:
                world.note("range", f"{s.name} goes on from {length} tokens, but its table is {table}")
                continue
            world.check_content(s, pool, table, start=0, stop=s.verified)
            pool.hold(s.id, table, start=pool.seen_from(length), stop=s.verified)

    def _stop(self, s: TracedSequence, state: State) -> None:
        if s.reserved is not None:
            self._world.note("lifecycle", f"{s.name} stops while it takes part in a step")
        for pool, table in zip(self._world.pools, s.tables, strict=True):
            pool.drop(s.id, table)
        s.state, s.length, s.verified, s.tables, s.reserved, s.starved_steps = state, 0, 0, [[], []], None, 0
        self._world.running.pop(s.id, None)
