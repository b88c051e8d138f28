"""`MaskWorker`: works out which tokens may follow in sequences with a grammar, beside all else.

::

    engine      ... settle | plan    | forward pass   | choose ...
    worker               foreseen    others             the masks are there

What is not foreseen (prompts, drafts, sequences that come back) is worked out beside the forward pass, and takes from it
where that has all cores.
"""

from __future__ import annotations

import logging
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
from onnxgen.errors import GrammarError, OnnxgenError

Masks = npt.NDArray[np.uint32]

_WORTH_A_THREAD = 4
"""Fewer rows are done sooner than another thread has begun."""

_HAND_OVER_S = 0.001
"""The longest time for another thread to begin; it usually takes some 50 µs."""

_log = logging.getLogger(__name__)

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
        self._early_memory = self._memory
        self._early: dict[Sample, int] = {}
        self._thread: Thread | None = None
        self._to_do: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._done: Event | None = None
        self._found: dict[Sample, Masks | OnnxgenError] = {}

    def foresee(self, samples: Sequence[Sample]) -> None:
        """Begin to work masks out for samples that will most likely be in the next step, without drafts.

        Between two forward passes one core is at work, so this costs next to nothing, and less is left for the pass.

        Args:
            samples: Samples with a grammar that has followed their answers.
        """
        self.finish()
        self._found, self._early = {}, {}
        if len(samples) < _WORTH_A_THREAD:
            return
        if len(self._early_memory) < len(samples):
            self._early_memory = np.zeros((len(samples) + len(samples) // 2, self._words), np.uint32)
        is_left_alone = Event()
        self._do(partial(self._compute_early, list(samples), is_left_alone))
        self._early = {sample: sample.num_new_tokens for sample in samples}
        is_left_alone.wait(_HAND_OVER_S)

    def begin(self, wanted: Sequence[tuple[Sample, Sequence[int]]]) -> None:
        """Begin to work masks out that were not foreseen; what was found for steps before is forgotten.

        Args:
            wanted: Samples with a grammar, and their draft tokens, () without.
        """
        early, self._early = self._early, {}
        if early:
            wanted = [(s, draft) for s, draft in wanted if draft or early.get(s) != s.num_new_tokens]
        else:
            self.finish()
            self._found = {}
        if not wanted:
            return
        rows = sum(len(draft) + 1 for _, draft in wanted)
        if len(self._memory) < rows:
            self._memory = np.zeros((rows + rows // 2, self._words), np.uint32)
        answers = [(s, s.answer, draft) for s, draft in wanted]
        if rows < _WORTH_A_THREAD:
            self.finish()
            self._compute(answers, self._memory)
        else:
            self._do(partial(self._compute, answers, self._memory))

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
        """Wait until the samples' grammar states are not the worker's any more."""
        if self._done is not None:
            self._done.wait()
            self._done = None

    def _do(self, compute: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = Thread(target=_work, args=(self._to_do,), name="onnxgen-masks", daemon=True)
            self._thread.start()
            weakref.finalize(self, self._to_do.put, None)
        done = Event()
        self._to_do.put(partial(_compute_and_say, compute, done))
        self._done = done

    def _compute_early(self, samples: Sequence[Sample], is_left_alone: Event) -> None:
        masks = self._early_memory[: len(samples)]
        try:
            states = [sample.grammar for sample in samples if sample.grammar is not None]
            errors = states[0].fill_all(states, masks, ready=is_left_alone.set)
            for at, (sample, error) in enumerate(zip(samples, errors, strict=True)):
                if sample.request.ignore_eos and error is None:
                    self._hide_ends(masks[at : at + 1])
                self._found[sample] = masks[at : at + 1] if error is None else error
        except Exception:  # noqa: BLE001 - alone it comes out who is at fault
            self._compute([(sample, sample.answer, ()) for sample in samples], masks)

    def _compute(self, wanted: Sequence[_Wanted], memory: Masks) -> None:
        at = 0
        for sample, answer, draft in wanted:
            masks = memory[at : at + len(draft) + 1]
            at += len(masks)
            try:
                self._fill(sample.grammar, masks, answer, draft)
                if sample.request.ignore_eos:
                    self._hide_ends(masks)
                self._found[sample] = masks
            except Exception as error:  # noqa: BLE001 - whatever a grammar raises, only its own request ends
                self._found[sample] = as_grammar_error(error)

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


def _compute_and_say(compute: Callable[[], None], done: Event) -> None:
    try:
        compute()
    except Exception:  # noqa: BLE001 - who waits for it finds nothing, and the thread is there for the others
        _log.exception("masks could not be worked out")
    finally:
        done.set()


def _work(to_do: SimpleQueue[Callable[[], None] | None]) -> None:
    """Do one piece of work after the other. Holds on to no worker, so that one that is dropped lets its thread end."""
    while (one := to_do.get()) is not None:
        one()
        del one
