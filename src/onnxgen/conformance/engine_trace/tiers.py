"""`Tiers`: blocks that leave the pool and come back."""

from __future__ import annotations

from onnxgen.conformance.engine_trace.model import Fields, World
from onnxgen.conformance.engine_trace.pool import ANYTHING


class Tiers:
    """Follows the events of blocks that are kept outside of the pool; each method is the event of its name."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._saved: dict[int, list[int]] = {}
        self._loaded_under: dict[int, int] = {}

    def swap_out(self, f: Fields) -> None:
        """The first positions of a block are saved."""
        if self._in_range(f):
            self._saved[f["key"]] = self._world.pools[f["group"]].content(f["block"])[: f["num_tokens"]]

    def swap_in(self, f: Fields) -> None:
        """What was saved is in a block again."""
        if not self._in_range(f):
            return
        saved, wanted = self._saved.get(f["key"], []), f["num_tokens"]
        if len(saved) < wanted:
            return self._world.note(
                "content", f"{wanted} positions come back as {f['key']}; saved: {len(saved)}"
            )
        pool = self._world.pools[f["group"]]
        pool.replace(
            f["block"], saved[:wanted] + [0 if pool.exact else ANYTHING] * (pool.block_size - wanted)
        )
        for seq in pool.holders(f["block"]):
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
        good = f["group"] in (0, 1) and 0 <= f["block"] < self._world.pools[f["group"]].num_blocks
        if not good or not 0 < f["num_tokens"] <= self._world.pools[f["group"]].block_size:
            self._world.note(
                "range", f"{f['num_tokens']} positions of block {f['block']} of group {f['group']}"
            )
            return False
        return True
