"""`Steps`: what a step reserves, executes and commits."""

from __future__ import annotations

from onnxgen.conformance.engine_trace.model import (
    Fields,
    Reserved,
    State,
    TracedSequence,
    World,
    reservations,
)
from onnxgen.conformance.engine_trace.pool import ANYTHING, NEVER_WRITTEN, Pool


class Steps:
    """Follows the events of steps; each method is the event of its name.

    Args:
        world: What is known.
        starved_steps: A running answer may miss this many steps in a row that compute prompts.

    Attributes:
        num_done: Steps that the backend did.
    """

    def __init__(self, world: World, *, starved_steps: int) -> None:
        self.num_done = 0
        self._world = world
        self._starved_steps = starved_steps
        self._executing: list[TracedSequence] | None = None
        self._retrying = False
        self._states_before: list[tuple[Pool, int, list[int]]] = []

    def expect(self, event: str) -> None:
        """Another event comes; while a step executes it must be the step's outcome."""
        if self._executing is not None and event not in ("executed", "failed"):
            self._world.note("lifecycle", f"{event!r} comes while a step executes")
            self._executing = None

    def set_budgets(self, f: Fields) -> None:
        """What a step may hold from now on."""
        self._world.budgets = f

    def draft(self, f: Fields) -> None:
        """Tokens that may follow are computed behind a sequence's last one in the next step."""
        s = self._world.find(f["seq"], State.RUNNING)
        if s is None:
            return
        if s.length != len(s.tokens) - 1:
            self._world.note(
                "lifecycle", f"{s.name} has a draft behind {len(s.tokens) - s.length} tokens to compute"
            )
        s.draft = f["tokens"]

    def reserve(self, f: Fields) -> None:
        """A sequence takes part in the next step."""
        self._retrying = False
        s, world = self._world.find(f["seq"], State.RUNNING), self._world
        if s is None:
            return
        if s.reserved is not None:
            world.note(
                "lifecycle", f"{s.name} reserves again; its last step was neither committed nor rolled back"
            )
        start, end = f["context_len"], f["context_len"] + f["num_tokens"]
        if start != s.length:
            world.note("context", f"{s.name} holds {s.length} tokens, the step goes on from {start}")
        known = len(s.tokens) + len(s.draft)
        if not 0 <= start < end <= known:
            return world.note("tokens", f"{s.name} has {known} tokens; the step is of [{start}, {end})")
        tables = [f["blocks"], f["window"]]
        if not world.in_range(s, tables) or not self._copies_in_range(s, f["copies"], tables):
            return
        for pool, table in world.groups(tables):
            hole = pool.first_hole(table, start=min(start, pool.seen_from(start)), stop=end)
            if hole is not None:
                return world.note("range", f"{s.name} has no block for position {hole}; its table is {table}")
        s.reserved = Reserved(start, f["num_tokens"], tables, f["copies"])

    def execute(self, f: Fields) -> None:
        """The backend is about to run some of the reserved parts."""
        parts: list[TracedSequence] = []
        for seq, start, ids in f["parts"]:
            s = self._world.find(seq, State.RUNNING)
            if s is None:
                continue
            r = s.reserved
            if r is None or r.executed or (r.context_len, r.num_tokens) != (start, len(ids)) or s in parts:
                self._world.note(
                    "lifecycle", f"{s.name} executes {len(ids)} tokens from {start}; reserved: {r}"
                )
                continue
            if [*s.tokens[start:], *s.draft][: len(ids)] != ids:
                self._world.note("tokens", f"{s.name} is fed other tokens than its own from position {start}")
            parts.append(s)
        self._check_budgets(f["parts"])
        self._states_before.clear()
        self._copy(parts)
        for s, r in reservations(parts):
            self._check_context(s, r)
        self._write(parts)
        self._executing = parts

    def executed(self, f: Fields) -> None:
        """The backend did what it was about to do."""
        del f
        if self._executing is None:
            return self._world.note("lifecycle", "'executed' without 'execute'")
        for _, r in reservations(self._executing):
            r.executed = True
        self.num_done += 1
        if not self._retrying:
            self._count_starved(self._executing)
        self._executing = None

    def failed(self, f: Fields) -> None:
        """The backend raised; parts may be tried again."""
        del f
        if self._executing is None:
            return self._world.note("lifecycle", "'failed' without 'execute'")
        for pool, block, content in reversed(self._states_before):
            pool.replace(block, content)
        for _, r in reservations(self._executing):
            for pool, table in self._world.groups(r.tables):
                if not pool.exact:
                    pool.write(table, r.context_len, [ANYTHING] * r.num_tokens)
            for _, target, num_tokens, group in r.copies:
                self._world.pools[group].content(target)[:num_tokens] = [ANYTHING] * num_tokens
        self._retrying = True
        self._executing = None

    def accepted(self, f: Fields) -> None:
        """Tokens of a draft count, and a token that follows them may be chosen."""
        s = self._world.find(f["seq"], State.RUNNING)
        if s is None:
            return
        if s.reserved is None or not s.reserved.executed or not s.draft:
            return self._world.note("lifecycle", f"{s.name} accepts tokens of a draft that was not executed")
        if f["tokens"] != s.draft[: len(f["tokens"])]:
            self._world.note("tokens", f"{s.name} accepts {f['tokens']} of the draft {s.draft}")
        s.reserved.num_tokens += len(f["tokens"]) - len(s.draft)
        self._world.append(s, f["tokens"])
        s.draft = []
        s.has_logits = True

    def commit(self, f: Fields) -> None:
        """What was executed counts."""
        s, world = self._world.find(f["seq"], State.RUNNING), self._world
        if s is None:
            return
        r, s.reserved = s.reserved, None
        if r is None or not r.executed:
            found = "nothing is reserved" if r is None else "its part was not executed"
            return world.note("lifecycle", f"{s.name} commits, but {found}")
        if s.draft:
            r.num_tokens -= len(s.draft)
            s.draft = []
        length = r.context_len + r.num_tokens
        if f["length"] != length:
            world.note("context", f"{s.name} went on to {length} tokens and commits {f['length']}")
        tables, before = [f["blocks"], f["window"]], s.tables
        if not world.in_range(s, tables):
            return
        s.tables = tables
        for group, (pool, table) in enumerate(world.groups(tables)):
            seen, old, written = pool.seen_from(length), before[group], r.tables[group]
            if pool.first_hole(table, start=seen, stop=length) is not None:
                world.note("range", f"{s.name} commits {length} tokens, but its table is {table}")
                continue
            first = pool.seen_from(s.verified) // pool.block_size
            behind = -(-length // pool.block_size)
            moved = table[seen // pool.block_size : behind] != written[seen // pool.block_size : behind]
            if moved:
                world.check_content(s, pool, table, start=seen, stop=length)
            if moved or s.verified != r.context_len or table[first : len(old)] != old[first:]:
                pool.drop(s.id, old)
                pool.hold(s.id, table, start=seen, stop=length)
            else:
                pool.advance(s.id, table, old_length=r.context_len, length=length)
        s.length = s.verified = length
        s.has_logits = length == len(s.tokens)

    def rollback(self, f: Fields) -> None:
        """What was reserved is given back."""
        s = self._world.find(f["seq"])
        if s is None:
            return
        if s.reserved is None:
            self._world.note("lifecycle", f"{s.name} rolls back, but nothing is reserved")
        s.reserved = None
        s.draft = []

    def _copies_in_range(self, s: TracedSequence, copies: list[list[int]], tables: list[list[int]]) -> bool:
        for source, target, num_tokens, group in copies:
            pool = self._world.pools[group] if group in (0, 1) else None
            if pool is None or not 0 <= source < pool.num_blocks or not 0 < num_tokens <= pool.block_size:
                self._world.note(
                    "range", f"{s.name} copies {num_tokens} positions of {source} in group {group}"
                )
                return False
            if target not in tables[group]:
                self._world.note(
                    "copy", f"{s.name} copies {source} -> {target}; its table is {tables[group]}"
                )
                return False
        return True

    def _check_budgets(self, parts: list[tuple[int, int, list[int]]]) -> None:
        budgets = self._world.budgets
        if budgets is None:
            return self._world.note("budget", "a step executes before any budgets were said")
        if len(parts) > budgets["max_seqs"]:
            self._world.note("budget", f"a step of {len(parts)} sequences; max_seqs is {budgets['max_seqs']}")
        counts: list[int] = []
        for seq, start, ids in parts:
            s = self._world.sequences.get(seq)
            must = s.min_chunk_end - start if s is not None else 0
            counts.append(len(ids) if len(ids) > must else 0)  # what must be is counted against no budget
            if len(ids) > max(budgets["chunk_tokens"], must):
                found = f"{len(ids)} tokens of sequence {seq}; chunk_tokens is {budgets['chunk_tokens']}"
                self._world.note("budget", f"a step has {found}")
        if sum(counts) > budgets["max_step_tokens"]:
            found = f"{sum(counts)} tokens; max_step_tokens is {budgets['max_step_tokens']}"
            self._world.note("budget", f"a step has {found}")

    def _copy(self, parts: list[TracedSequence]) -> None:
        copies = [(s, *c) for s, r in reservations(parts) for c in r.copies]
        targets = [(target, group) for _, _, target, _, group in copies]
        for s, source, target, num_tokens, group in copies:
            pool, what = self._world.pools[group], f"copy {source} -> {target} of {s.name}"
            copied = pool.content(source)[:num_tokens]
            if targets.count((target, group)) > 1 or (source, group) in targets:
                self._world.note("copy", f"{what} depends on the order of copies")
            if NEVER_WRITTEN in copied or ANYTHING in copied:
                self._world.note(
                    "copy", f"{what} reads {num_tokens} positions, not all of which were written"
                )
            other = pool.endangered(target, 0, writer=None)
            if other is not None:
                self._world.note("sharing", f"{what} overwrites what sequence {other} relies on")
            rest = [NEVER_WRITTEN] * (pool.block_size - num_tokens)
            pool.replace(target, copied + (rest if pool.exact else pool.content(target)[num_tokens:]))

    def _check_context(self, s: TracedSequence, r: Reserved) -> None:
        """What a part will read is what the sequence says; looked at where its blocks are not those it held before."""
        for group, (pool, table) in enumerate(self._world.groups(r.tables)):
            old, size = s.tables[group], pool.block_size
            first, behind = pool.seen_from(r.context_len) // size, -(-min(s.verified, r.context_len) // size)
            start = s.verified
            if table[first:behind] != old[first:behind]:
                start = size * next(i for i in range(first, behind) if i >= len(old) or table[i] != old[i])
            if start < r.context_len:
                self._world.check_content(s, pool, table, start=start, stop=r.context_len)
            held = sum(c != NEVER_WRITTEN for c in pool.content(table[0])) if pool.exact else 0
            if pool.exact and r.context_len and held != r.context_len:
                self._world.note(
                    "content", f"{s.name} goes on from {r.context_len} tokens of a state of {held}"
                )

    def _write(self, parts: list[TracedSequence]) -> None:
        for group, pool in enumerate(self._world.pools):
            owner: dict[int, int] = {}
            for s, r in reservations(parts) if pool.num_blocks else ():
                start, end = r.context_len, r.context_len + r.num_tokens
                for block, offset, _ in pool.spans(r.tables[group], start, end):
                    if owner.setdefault(block, s.id) != s.id:
                        self._world.note(
                            "collision", f"sequences {owner[block]} and {s.id} write block {block}"
                        )
                    other = pool.endangered(block, offset, writer=s.id)
                    if other is not None:
                        where = f"block {block} from offset {offset}, which sequence {other} relies on"
                        self._world.note("sharing", f"{s.name} writes {where}")
                    if pool.exact:
                        self._states_before.append((pool, block, [*pool.content(block)]))
                        if not start:
                            pool.replace(block, [NEVER_WRITTEN] * pool.block_size)
                pool.write(r.tables[group], start, self._world.content(s, start, end))

    def _count_starved(self, parts: list[TracedSequence]) -> None:
        prefills = any(
            r.num_tokens - len(s.draft) > 1 or r.context_len < s.num_prompt for s, r in reservations(parts)
        )
        for s in parts:
            s.starved_steps = 0
        if not prefills:
            return
        taking_part = {s.id for s in parts}
        for s in self._world.running.values():
            if s.id not in taking_part and len(s.tokens) > s.num_prompt and len(s.tokens) - s.length == 1:
                s.starved_steps += 1
                if s.starved_steps == self._starved_steps + 1:
                    missed = f"{s.starved_steps} steps in a row that computed prompts"
                    self._world.note("starved", f"{s.name} missed {missed}")
