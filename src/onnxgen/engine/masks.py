"""`MaskWorker`: works out which tokens may follow in sequences with a grammar.

::

    engine      ... settle | plan | masks | forward pass      | choose ...
    helper                                | what is left over

Most masks cost some 10 µs, far less than two threads that wait for each other, or than a forward pass that has lost a core
to another thread. So the engine works them out by itself before the pass; a helper goes on beside it where that takes long.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from threading import Thread

import numpy as np
import numpy.typing as npt

from onnxgen.engine.grammar_following import as_grammar_error
from onnxgen.engine.sample import Sample
from onnxgen.errors import GrammarError, OnnxgenError

Masks = npt.NDArray[np.uint32]

_BEFORE_PASS_S = 0.001
"""So long the forward pass waits for masks; what was not begun by then is worked out beside it."""

_Task = tuple[Sample, Sequence[int], Masks]
"""A sample, its draft tokens, and where its masks go."""


class MaskWorker:
    """Masks for the sequences of one step after the other.

    From `begin` until the masks are asked for, or the next `begin`, the samples' grammar states are the worker's.

    Args:
        vocab_size: Width of the logits.
        eos_ids: Tokens that end answers.
        clock: Gives the time in seconds.
    """

    def __init__(
        self, *, vocab_size: int, eos_ids: Sequence[int], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._words = -(-vocab_size // 32)
        self._ends: dict[int, int] = {}
        for token in eos_ids:
            self._ends[token // 32] = self._ends.get(token // 32, 0) | 1 << token % 32
        self._clock = clock
        self._memory: Masks = np.zeros((0, self._words), np.uint32)
        self._thread: Thread | None = None
        self._to_do: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._done: SimpleQueue[None] = SimpleQueue()
        self._is_helped = False
        self._tasks: deque[_Task] = deque()
        self._found: dict[Sample, Masks | OnnxgenError] = {}

    def begin(self, wanted: Sequence[tuple[Sample, Sequence[int]]]) -> None:
        """Work masks out, or begin to; what was found for steps before is forgotten.

        Args:
            wanted: Samples with a grammar, and their draft tokens, () without.
        """
        self._tasks.clear()
        self.finish()
        self._found = {}
        if not wanted:
            return
        rows = sum([len(draft) + 1 for _, draft in wanted])
        if len(self._memory) < rows:
            self._memory = np.zeros((rows + rows // 2, self._words), np.uint32)
        at = 0
        for sample, draft in wanted:
            self._tasks.append((sample, draft, self._memory[at : at + len(draft) + 1]))
            at += len(draft) + 1
        work = partial(_work_off, self._tasks, self._found, self._ends)
        until = self._clock() + _BEFORE_PASS_S
        work(lambda: self._clock() < until)
        if self._tasks:
            self._ask_for_help(work)

    def masks(self, sample: Sample) -> Masks:
        """What may follow in a sequence that `begin` was told of, before each draft token and after the last.

        Returns:
            uint32 ``[len(draft) + 1, words]``, the worker's, valid until the next `begin`. Rows behind a draft token that
            may not follow hold anything.

        Raises:
            GrammarError: The grammar cannot be followed there.
        """
        self.finish()
        found = self._found.get(sample)
        if found is None:
            raise GrammarError(f"what may follow in {sample} was not worked out")
        if isinstance(found, OnnxgenError):
            raise found
        return found

    def close(self) -> None:
        """Let the thread end. Calling it twice is harmless."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._to_do.put(None)
            thread.join()

    def finish(self) -> None:
        """Work out what is left; from then on the samples' grammar states are not the worker's any more."""
        if self._tasks:
            _work_off(self._tasks, self._found, self._ends)
        if self._is_helped:
            self._done.get()
            self._is_helped = False

    def _ask_for_help(self, work: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = Thread(
                target=_help, args=(self._to_do, self._done), name="onnxgen-masks", daemon=True
            )
            self._thread.start()
            weakref.finalize(self, self._to_do.put, None)
        self._to_do.put(work)
        self._is_helped = True


def _work_off(
    tasks: deque[_Task],
    found: dict[Sample, Masks | OnnxgenError],
    ends: dict[int, int],
    goes_on: Callable[[], bool] = lambda: True,
) -> None:
    """Work masks out until there are no tasks left. Several threads may do so at the same time.

    Args:
        tasks: Each is taken by one thread.
        found: Gets the masks, or why there are none.
        ends: Bits of the tokens that end answers, by word.
        goes_on: Whether to take one more.
    """
    while goes_on():
        try:
            sample, draft, masks = tasks.popleft()
        except IndexError:
            return
        try:
            _fill(sample, masks, draft)
            if sample.request.ignore_eos:
                for mask in masks:
                    _hide_ends(mask, ends)
            found[sample] = masks
        except Exception as error:  # noqa: BLE001 - whatever a grammar raises, only its own request ends
            found[sample] = as_grammar_error(error)


def _fill(sample: Sample, masks: Masks, draft: Sequence[int]) -> None:
    state = sample.grammar
    assert state is not None
    if state.num_tokens != sample.num_new_tokens:  # a step was interrupted before it could follow
        state.follow(sample.answer)
    if draft:
        state.fill_along(masks, draft)
    else:
        state.fill(masks[0])


def _hide_ends(mask: Masks, ends: dict[int, int]) -> None:
    """Where ends do not count, they may only follow where nothing else may."""
    shown = {word: bits for word, bits in ends.items() if mask.item(word) & bits}
    for word, bits in shown.items():
        mask[word] &= np.uint32(~bits & 0xFFFFFFFF)
    if shown and not mask.any():
        for word, bits in shown.items():
            mask[word] = bits


def _help(to_do: SimpleQueue[Callable[[], None] | None], done: SimpleQueue[None]) -> None:
    """Help with one step after the other. Holds on to no worker, so that one that is dropped lets its thread end."""
    while (work := to_do.get()) is not None:
        try:
            work()
        finally:
            done.put(None)
        del work
