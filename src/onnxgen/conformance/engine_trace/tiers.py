"""`Tiers`: blocks that leave the pool and come back."""

from __future__ import annotations

from onnxgen.conformance.engine_trace.model import Fields, World
from onnxgen.conformance.engine_trace.pool import ANYTHING, NEVER_WRITTEN


class Tiers:
    """Follows the events of blocks that are kept outside of the pool; each method is the event of its name."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._saved: dict[int, list[list[int]]] = {}
        self._loaded_under: dict[int, int] = {}

    def swap_out(self, f: Fields) -> None:
        """What some blocks hold is saved."""
        if self._in_range(f):
            pools = self._world.pools
            self._saved[f["key"]] = [pools[group].content(block)[:n] for block, n, group in f["pieces"]]

    def swap_in(self, f: Fields) -> None:
        """What was saved is in some blocks again."""
        saved = self._saved.pop(f["key"], [])
        if [len(content) for content in saved] != [n for _, n, _ in f["pieces"]]:
            found = f"{[n for _, n, _ in f['pieces']]} positions come back as {f['key']}"
            self._world.note("content", f"{found}; saved: {[len(content) for content in saved]}")
        elif self._in_range(f):
            self._fill(f, saved)

    def swap_lost(self, f: Fields) -> None:
        """What was saved could not be read back."""
        self._saved.pop(f["key"], None)
        if self._in_range(f):
            self._fill(f, [[ANYTHING] * n for _, n, _ in f["pieces"]])

    def _fill(self, f: Fields, contents: list[list[int]]) -> None:
        for (block, num_tokens, group), content in zip(f["pieces"], contents, strict=True):
            pool = self._world.pools[group]
            rest = [NEVER_WRITTEN if pool.exact else ANYTHING] * (pool.block_size - num_tokens)
            pool.replace(block, content + rest)
            for seq in pool.holders(block):
                self._loaded_under[seq] = self._world.line

    def check_loaded(self) -> None:
        """Nobody who still runs held a block that something came back to.

        Asked when the first part of the next step is reserved, because who held it may have been preempted by the
        plan that brought the block back, and plans are written down when they are complete.
        """
        for seq, line in self._loaded_under.items():
            s = self._world.sequences[seq]
            for pool, table in self._world.groups(s.tables):
                at = pool.first_difference(table, s.chain, start=pool.seen_from(s.length), stop=s.verified)
                if at is not None:
                    self._world.note("sharing", f"a block came back on position {at} of {s.name}", line=line)
        self._loaded_under.clear()

    def _in_range(self, f: Fields) -> bool:
        for block, num_tokens, group in f["pieces"]:
            pool = self._world.pools[group] if group in (0, 1) else None
            if pool is None or not 0 <= block < pool.num_blocks or not 0 < num_tokens <= pool.block_size:
                self._world.note("range", f"{num_tokens} positions of block {block} of group {group} move")
                return False
        return True
