"""`EngineTrace`: what the engine did, line by line, so that somebody else can check it.

Each line is a JSON object with its number ``n`` (from 0, without gaps), its ``event`` and, with a clock, the
seconds ``t``. The first line says the version of the format, the pool and the budgets. Requests and sequences
have ids; each of the ``n`` samples of a request is one sequence, and those after the first are forks::

    submit ─> admit ─┬─> reserve ─> execute ─> executed ─> commit ─> sample ─┬─> finish ─> release
                     │                 └─────> failed ───> rollback ─┐       │
                     ├───────────────────────────────────────────────┘ <─────┤
                     └─< resume <─ preempt <─────────────────────────────────┘

A ``draft`` may come before ``reserve``, and says what is computed behind a sequence's last token; ``accepted``, before
``commit``, says how much of it counts.

Tokens are written where they are fed (``execute``), so a reader can tell what each position of each block
holds, and whether a prefix that was reused is the right one. `onnxgen.conformance.engine_trace` is such a reader.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

VERSION = 1

_ENCODE = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class BlockCopied(Protocol):
    """A copy between blocks of one group, as both the cache and the backend describe it."""

    @property
    def source(self) -> int:
        """The block copied from."""
        ...

    @property
    def target(self) -> int:
        """The block copied to."""
        ...

    @property
    def num_tokens(self) -> int:
        """How many of its first positions."""
        ...

    @property
    def group(self) -> int:
        """Of which group of blocks."""
        ...


class BlockPart(Protocol):
    """The first positions of a block, as the tiers describe them."""

    @property
    def block(self) -> int:
        """The block."""
        ...

    @property
    def num_tokens(self) -> int:
        """How many of its first positions."""
        ...

    @property
    def group(self) -> int:
        """Of which group of blocks."""
        ...


class EngineTrace:
    """Writes events to a file. An engine that is not traced has None in its place.

    Args:
        path: The file; an older one is overwritten.
        num_blocks: Blocks of the pool, with ids from 0.
        block_size: Positions of a block.
        window: Positions that windowed layers see; None without such a group.
        window_blocks: Blocks of the group of windows.
        exact: A sequence goes on only from 0 or from exactly what was written.
        max_seqs: Sequences in a step at most.
        max_step_tokens: Tokens in a step at most.
        chunk_tokens: Tokens of one sequence in a step at most.
        clock: Seconds that never go back; None leaves times out, so that equal runs give equal files.

    Raises:
        OSError: The file cannot be written.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        num_blocks: int,
        block_size: int,
        max_seqs: int,
        max_step_tokens: int,
        chunk_tokens: int,
        window: int | None = None,
        window_blocks: int = 0,
        exact: bool = False,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._file = Path(path).open("w", encoding="utf-8")  # noqa: SIM115 - closed by close()
        self._clock = clock
        self._count = 0
        self._write(
            "open",
            version=VERSION,
            num_blocks=num_blocks,
            block_size=block_size,
            window=window,
            window_blocks=window_blocks,
            exact=exact,
        )
        self.budgets(max_seqs=max_seqs, max_step_tokens=max_step_tokens, chunk_tokens=chunk_tokens)

    def budgets(self, *, max_seqs: int, max_step_tokens: int, chunk_tokens: int) -> None:
        """What a step may hold from now on."""
        self._write("budgets", max_seqs=max_seqs, max_step_tokens=max_step_tokens, chunk_tokens=chunk_tokens)

    def submit(
        self,
        request: int,
        seq: int,
        prompt: Iterable[int],
        *,
        samples: int = 1,
        extra: Hashable = None,
        min_chunk_end: int = 0,
        name: str | None = None,
    ) -> None:
        """A request came in; ``seq`` is its sample 0.

        Cached content depends on ``extra``. A chunk that begins before ``min_chunk_end`` ends there or behind it,
        whatever the budgets say. ``name`` is what its caller calls it.
        """
        named = {} if name is None else {"name": name}
        self._write(
            "submit",
            request=request,
            seq=seq,
            prompt=_ints(prompt),
            samples=samples,
            extra=_text(extra),
            min_chunk_end=min_chunk_end,
            **named,
        )

    def admit(self, seq: int, cached: int, blocks: Sequence[int], window_blocks: Sequence[int] = ()) -> None:
        """A waiting sequence runs; ``cached`` of its tokens need no computing and lie in ``blocks``."""
        self._write("admit", seq=seq, cached=cached, blocks=[*blocks], window=[*window_blocks])

    def reserve(
        self,
        seq: int,
        context_len: int,
        num_tokens: int,
        blocks: Sequence[int],
        window_blocks: Sequence[int] = (),
        copies: Iterable[BlockCopied] = (),
    ) -> None:
        """Room for ``num_tokens`` more, with the copies to do before the step that writes them."""
        self._write(
            "reserve",
            seq=seq,
            context_len=context_len,
            num_tokens=num_tokens,
            blocks=[*blocks],
            window=[*window_blocks],
            copies=[[c.source, c.target, c.num_tokens, c.group] for c in copies],
        )

    def draft(self, seq: int, tokens: Iterable[int]) -> None:
        """Tokens that may follow, for which there is room behind what the next `reserve` of the sequence is for."""
        self._write("draft", seq=seq, tokens=_ints(tokens))

    def accepted(self, seq: int, tokens: Iterable[int]) -> None:
        """So many tokens of the draft that was executed count: the sequence has them, and a token is chosen after them.

        The commit that follows is of these; a rollback means that they are computed again.
        """
        self._write("accepted", seq=seq, tokens=_ints(tokens))

    def execute(self, parts: Iterable[tuple[int, int, Iterable[int]]]) -> None:
        """The backend is about to run these parts: ``(seq, context_len, new token ids)`` of each."""
        self._write("execute", parts=[[seq, length, _ints(ids)] for seq, length, ids in parts])

    def executed(self) -> None:
        """The backend did what the last `execute` said."""
        self._write("executed")

    def failed(self, error: str) -> None:
        """The backend raised: positions from each part's ``context_len`` on hold anything."""
        self._write("failed", error=error)

    def commit(self, seq: int, length: int, blocks: Sequence[int], window_blocks: Sequence[int] = ()) -> None:
        """What was executed counts now: the sequence holds ``length`` tokens in these blocks.

        They are those that were reserved, but for blocks whose content another sequence has as well.
        """
        self._write("commit", seq=seq, length=length, blocks=[*blocks], window=[*window_blocks])

    def rollback(self, seq: int) -> None:
        """What was reserved is given back: the sequence holds what it held before."""
        self._write("rollback", seq=seq)

    def sample(self, tokens: Iterable[tuple[int, int]]) -> None:
        """``(seq, token id)`` chosen after what each sequence holds."""
        self._write("sample", tokens=[[seq, int(token)] for seq, token in tokens])

    def forced(self, seq: int, tokens: Iterable[int]) -> None:
        """Tokens that follow of necessity behind the one that was chosen, so that no logits were needed."""
        self._write("forced", seq=seq, tokens=[*tokens])

    def fork(
        self,
        parent: int,
        child: int,
        index: int,
        length: int = 0,
        blocks: Sequence[int] = (),
        window_blocks: Sequence[int] = (),
        *,
        runs: bool = True,
    ) -> None:
        """``child`` is sample ``index`` of its parent's request, and shares ``length`` tokens of it.

        One that does not run holds nothing, like one that was preempted, and is resumed like that.
        """
        self._write(
            "fork",
            parent=parent,
            child=child,
            index=index,
            runs=runs,
            length=length,
            blocks=[*blocks],
            window=[*window_blocks],
        )

    def preempt(self, seq: int, mode: Literal["swap", "recompute"]) -> None:
        """A running sequence gave up its blocks, and keeps its content elsewhere or computes it again."""
        self._write("preempt", seq=seq, mode=mode)

    def resume(self, seq: int, cached: int, blocks: Sequence[int], window_blocks: Sequence[int] = ()) -> None:
        """A preempted sequence runs again, with ``cached`` tokens that need no computing."""
        self._write("resume", seq=seq, cached=cached, blocks=[*blocks], window=[*window_blocks])

    def restart(
        self,
        seq: int,
        cached: int,
        blocks: Sequence[int] = (),
        window_blocks: Sequence[int] = (),
        *,
        extra: Hashable,
        min_chunk_end: int,
    ) -> None:
        """A sequence is computed again, because its content depends on another ``extra``, or is unknown now.

        ``cached`` and the blocks are what it goes on from if it runs.
        """
        self._write(
            "restart",
            seq=seq,
            cached=cached,
            blocks=[*blocks],
            window=[*window_blocks],
            extra=_text(extra),
            min_chunk_end=min_chunk_end,
        )

    def swap_out(self, key: int, pieces: Iterable[BlockPart]) -> None:
        """What these blocks hold was saved outside of the pool under a key."""
        self._write("swap_out", key=key, pieces=_pieces(pieces))

    def swap_in(self, key: int, pieces: Iterable[BlockPart]) -> None:
        """What was saved under a key is in these blocks of the pool now."""
        self._write("swap_in", key=key, pieces=_pieces(pieces))

    def swap_lost(self, key: int, pieces: Iterable[BlockPart]) -> None:
        """What was saved under a key could not be read back: these blocks hold anything."""
        self._write("swap_lost", key=key, pieces=_pieces(pieces))

    def finish(self, request: int, index: int, reason: str) -> None:
        """The last event of a sample was reported."""
        self._write("finish", request=request, index=index, reason=reason)

    def release(self, seq: int) -> None:
        """A sequence is gone; its blocks may be reused."""
        self._write("release", seq=seq)

    def usage(self, *, used: int, cached: int, free: int) -> None:
        """Blocks of the pool held by sequences, by the prefix index alone, and by nobody."""
        self._write("usage", used=used, cached=cached, free=free)

    def close(self) -> None:
        """The engine shut down in good order. Calling it twice is harmless."""
        if self._file.closed:
            return
        self._write("close")
        self._file.close()

    def _write(self, event: str, **fields: Any) -> None:
        line: dict[str, Any] = {"n": self._count, "event": event}
        if self._clock is not None:
            line["t"] = round(self._clock(), 6)
        self._file.write(_ENCODE(line | fields) + "\n")
        self._count += 1
        if event in _LAST_OF_A_STEP:
            self._file.flush()


_LAST_OF_A_STEP = frozenset({"open", "execute", "executed", "failed", "finish"})
"""Events after which the file is flushed: what a crash leaves behind says which step it was."""


def _ints(ids: Iterable[int]) -> list[int]:
    return [int(i) for i in ids]


def _text(extra: Hashable) -> str | None:
    return None if extra is None else repr(extra)


def _pieces(pieces: Iterable[BlockPart]) -> list[list[int]]:
    return [[piece.block, piece.num_tokens, piece.group] for piece in pieces]
