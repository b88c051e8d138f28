"""`BlockPool`: which blocks of one group are free, how many rely on each, and how far each is filled.

references   0          free
             1          one holder: it may write anywhere
             2 or more  shared: a holder may write only at the tip, where nobody else's tokens are

the tip      positions   0 1 2 3 4 5 6 7
of a block               x x x x x . . .      filled = 5: what some holder relies on ends here
                                   ^ a holder whose own tokens end here writes in place, and moves the tip
                             ^ one whose tokens end here would overwrite another's: it copies three first
"""

from __future__ import annotations

from collections.abc import Callable


class BlockPool:
    """Reference counts of blocks with ids from 0.

    Args:
        num_blocks: How many there are.
        busy: Called with a block that the prefix index alone held, when somebody else begins to hold it.
        idle: Called with a block that the prefix index alone holds from now on.
        exact: Blocks hold a state that writing replaces, so that a shared one is never written.

    Attributes:
        references: Holders of each block. Change it only through the methods.
        filled: How many positions of each block holders rely on at most; kept by whoever writes blocks.
        num_cached: Blocks that only the prefix index holds.
        num_allocated: Blocks handed out so far.
        num_freed: Blocks that came back so far.
    """

    __slots__ = (
        "_busy",
        "_exact",
        "_free",
        "_idle",
        "_is_cached",
        "filled",
        "num_allocated",
        "num_cached",
        "num_freed",
        "references",
    )

    def __init__(
        self,
        num_blocks: int,
        *,
        busy: Callable[[int], None],
        idle: Callable[[int], None],
        exact: bool = False,
    ) -> None:
        self.references = [0] * num_blocks
        self.filled = [0] * num_blocks
        self.num_cached = 0
        self.num_allocated = 0
        self.num_freed = 0
        self._busy, self._idle, self._exact = busy, idle, exact
        self._is_cached = bytearray(num_blocks)
        self._free = list(range(num_blocks - 1, -1, -1))

    @property
    def num_blocks(self) -> int:
        """Blocks of the pool."""
        return len(self.references)

    @property
    def num_free(self) -> int:
        """Blocks without a holder."""
        return len(self._free)

    def acquire(self) -> int:
        """Take a free block, with nothing in it; there must be one."""
        assert self._free, f"asked for a block, none of {self.num_blocks} is free"
        block = self._free.pop()
        self.references[block] = 1
        self.filled[block] = 0
        self.num_allocated += 1
        return block

    def share(self, block: int) -> None:
        """Become a further holder of a block that is held."""
        references = self.references[block]
        assert references > 0, f"block {block} is free and cannot be shared"
        self.references[block] = references + 1
        if references == 1 and self._is_cached[block]:
            self.num_cached -= 1
            self._busy(block)

    def release(self, block: int) -> None:
        """Hold a block no longer; the last holder's release makes it free."""
        references = self.references[block] - 1
        assert references >= 0, f"block {block} is free and was released again"
        self.references[block] = references
        if references == 0:
            assert not self._is_cached[block], f"block {block} was freed while the prefix index names it"
            self._free.append(block)
            self.num_freed += 1
        elif references == 1 and self._is_cached[block]:
            self.num_cached += 1
            self._idle(block)

    def is_cached(self, block: int) -> bool:
        """Whether the prefix index is one of the holders."""
        return bool(self._is_cached[block])

    def cache(self, block: int) -> None:
        """The prefix index becomes a holder of a block that is held."""
        assert not self._is_cached[block], f"the prefix index holds block {block} already"
        self.share(block)
        self._is_cached[block] = True

    def uncache(self, block: int) -> None:
        """The prefix index holds a block no longer."""
        assert self._is_cached[block], f"the prefix index does not hold block {block}"
        if self.references[block] == 1:
            self.num_cached -= 1
        self._is_cached[block] = False
        self.release(block)

    def may_write(self, block: int, offset: int) -> bool:
        """Whether a holder whose own tokens end at ``offset`` may write there: alone, or at the tip."""
        return self.references[block] == 1 or (self.filled[block] == offset and not self._exact)

    def only_index_besides(self, block: int) -> bool:
        """Whether a block has one holder besides the prefix index."""
        return self.references[block] == 2 and bool(self._is_cached[block])

    def check_integrity(self, holders: list[int], relied: list[int], cached: set[int], *, name: str) -> None:
        """Compare the books with what the holders say.

        Args:
            holders: How many hold each block.
            relied: How many positions of each block somebody relies on.
            cached: Blocks that the prefix index names.
            name: Of the group, for messages.
        """
        free, total = len(self._free), self.num_blocks
        in_use = sum(count > (block in cached) for block, count in enumerate(holders))
        num_cached = sum(count == 1 and block in cached for block, count in enumerate(holders))
        books = (
            f"{name} blocks: {free} free + {in_use} in use + {num_cached} cached = {free + in_use + num_cached} of "
            f"{total}; references {sum(self.references)}, holders {sum(holders)}"
        )
        assert free + in_use + num_cached == total, books
        assert len(set(self._free)) == free, f"{books}; a block is free twice"
        assert all(not self.references[block] for block in self._free), (
            f"{books}; a free block has references"
        )
        assert num_cached == self.num_cached, f"{books}; counted as cached: {self.num_cached}"
        for block, count in enumerate(holders):
            seen = f"{books}; block {block}: {self.references[block]} references, {count} holders"
            assert self.references[block] == count, seen
            assert self.is_cached(block) == (block in cached), f"{seen}; cached: {self.is_cached(block)}"
            assert self.filled[block] >= relied[block], (
                f"{seen}; filled {self.filled[block]}, relied on {relied[block]}"
            )
