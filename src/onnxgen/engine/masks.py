"""`MaskWorker`: works out which tokens may follow in sequences with a grammar, beside the forward pass."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread

import numpy as np
import numpy.typing as npt

from onnxgen.engine.constraints.state import GrammarState
from onnxgen.engine.grammar_following import as_grammar_error
from onnxgen.engine.sample import Sample
from onnxgen.errors import OnnxgenError

Masks = npt.NDArray[np.uint32]

_Wanted = tuple[Sample, npt.NDArray[np.int64], Sequence[int]]
"""A sample, its answer so far, and its draft tokens."""


class MaskWorker:
    """Masks for the sequences of one step after the other.

    From `begin` until the masks are asked for, or the next `begin`, the samples' grammar states are the worker's.

    Args:
        vocab_size: Width of the logits.
        eos_ids: Tokens that end answers.
    """

    def __init__(self, *, vocab_size: int, eos_ids: Sequence[int]) -> None:
        self._words = -(-vocab_size // 32)
        self._ends = np.zeros(self._words, np.uint32)
        for token in eos_ids:
            self._ends[token // 32] |= np.uint32(1 << token % 32)
        self._memory: Masks = np.zeros((0, self._words), np.uint32)
        self._thread: Thread | None = None
        self._to_do: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._done: Event | None = None
        self._found: dict[Sample, Masks | OnnxgenError] = {}

    def begin(self, wanted: Sequence[tuple[Sample, Sequence[int]]]) -> None:
        """Begin to work masks out; what was found before is forgotten.

        Args:
            wanted: Samples with a grammar, and their draft tokens, () without.
        """
        self._finish()
        self._found = {}
        if not wanted:
            return
        rows = sum(len(draft) + 1 for _, draft in wanted)
        if len(self._memory) < rows:
            self._memory = np.zeros((rows + rows // 2, self._words), np.uint32)
        if self._thread is None:
            self._thread = Thread(target=_work, args=(self._to_do,), name="onnxgen-masks", daemon=True)
            self._thread.start()
            weakref.finalize(self, self._to_do.put, None)
        done = Event()
        self._to_do.put(partial(self._compute, [(s, s.answer, draft) for s, draft in wanted], done))
        self._done = done

    def masks(self, sample: Sample) -> Masks:
        """What may follow in a sequence that `begin` was told of, before each draft token and after the last.

        Returns:
            uint32 ``[len(draft) + 1, words]``, the worker's, valid until the next `begin`. Rows behind a draft token that
            may not follow hold anything.

        Raises:
            GrammarError: The grammar cannot be followed there.
        """
        self._finish()
        found = self._found[sample]
        if isinstance(found, OnnxgenError):
            raise found
        return found

    def close(self) -> None:
        """Let the thread end. Calling it twice is harmless."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._to_do.put(None)
            thread.join()

    def _finish(self) -> None:
        if self._done is not None:
            self._done.wait()
            self._done = None

    def _compute(self, wanted: Sequence[_Wanted], done: Event) -> None:
        at = 0
        for sample, answer, draft in wanted:
            masks = self._memory[at : at + len(draft) + 1]
            at += len(masks)
            try:
                self._fill(sample.grammar, masks, answer, draft)
                if sample.request.ignore_eos:
                    self._hide_ends(masks)
                self._found[sample] = masks
            except Exception as error:  # noqa: BLE001 - whatever a grammar raises, only its own request ends
                self._found[sample] = as_grammar_error(error)
        done.set()

    def _fill(
        self, state: GrammarState | None, masks: Masks, answer: npt.NDArray[np.int64], draft: Sequence[int]
    ) -> None:
        assert state is not None
        if state.num_tokens != len(answer):  # a step was interrupted before it could follow
            state.follow(answer)
        if draft:
            state.fill_along(masks, draft)
        else:
            state.fill(masks[0])

    def _hide_ends(self, masks: Masks) -> None:
        """Where ends do not count, they may only follow where nothing else may."""
        others = masks & ~self._ends
        goes_on = others.any(axis=1)
        masks[goes_on] = others[goes_on]


def _work(to_do: SimpleQueue[Callable[[], None] | None]) -> None:
    """Do one piece of work after the other. Holds on to no worker, so that one that is dropped lets its thread end."""
    while (one := to_do.get()) is not None:
        one()
        del one
