"""`BeamRows`: the best of several continuations of every prompt, as onnxruntime-genai searches for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
import numpy.typing as npt

from onnxgen.engine.batch import Batch
from onnxgen.engine.beams.options import ONNXRUNTIME_GENAI, BeamOptions
from onnxgen.engine.beams.processing import BeamProcessing
from onnxgen.engine.beams.search import BeamSearch
from onnxgen.errors import CapabilityError, ContextLengthError, OptionError, StateError
from onnxgen.facade.rows import Row
from onnxgen.facade.search.last_inputs import LastRun
from onnxgen.facade.search.room import check_room, max_length_reached
from onnxgen.facade.search.round_counts import RoundCounts
from onnxgen.metadata.model_spec import ModelSpec

Int64Array = npt.NDArray[np.int64]
Float32Array = npt.NDArray[np.float32]


class BeamRows:
    """Beams of some prompts, ``num_beams`` rows each. See `onnxgen.facade.search.base.Search`.

    What `sequence` gives are results, ``num_return_sequences`` of each prompt; they are what they would be if the
    search ended now.

    Args:
        batch: ``batch_size * num_beams`` rows; the search's from now on.
        options: What was asked for.
        processing: Penalties and bans.
        spec: The model.
    """

    def __init__(
        self, batch: Batch, options: BeamOptions, processing: BeamProcessing, spec: ModelSpec
    ) -> None:
        self._batch = batch
        self._options = options
        self._processing = processing
        self._spec = spec
        self._prompts: list[Int64Array] = []
        self._search: BeamSearch | None = None
        self._num_new_tokens = 0

    @property
    def num_rows(self) -> int:
        """Rows of `logits` and `next_tokens`: all beams of all prompts."""
        return self._batch.num_rows

    @property
    def length(self) -> int:
        """Tokens of every beam, padding included."""
        return len(self._prompts[0]) + self._num_new_tokens if self._prompts else 0

    @property
    def done(self) -> bool:
        """Whether the search for every prompt has ended."""
        if self._search is None:
            return self.length == self._batch.max_tokens
        return self._search.done

    def append(self, ids: Int64Array, *, embeds: Float32Array | None = None) -> None:
        """Process the prompts ``[batch_size, n]``; with several, padding at a row's end is not processed."""
        if embeds is not None:
            raise CapabilityError("beams begin with token ids; give embeddings to a search with num_beams=1")
        if self._search is not None:
            raise StateError(
                "the beams hold tokens already, and beams take tokens once only; call rewind_to(0) first"
            )
        check_room(ids.shape[1], held=0, most=self._batch.max_tokens, context=self._spec.context_length)
        pad = self._spec.tokens.pad if len(ids) > 1 else None
        prompts = [Row().append(part, pad=pad).processed(Row()) for part in ids]
        left = self._batch.max_tokens - ids.shape[1]
        if left:
            self._search = BeamSearch(
                self._batch,
                [prompt.tolist() for prompt in prompts],
                max_new_tokens=[left] * len(prompts),
                options=self._options,
                rules=ONNXRUNTIME_GENAI,
                eos_ids=self._spec.tokens.eos,
                processing=self._processing,
            )
        self._prompts = list(ids.copy())

    def step(self) -> None:
        """Follow every prompt that is not done one token further."""
        search = self._started()
        if search.done:
            if self.length == self._batch.max_tokens:
                raise self._full()
            raise StateError("the search for every prompt has ended; call rewind_to(0) to begin another")
        search.step()
        self._num_new_tokens += 1

    def next_tokens(self) -> list[int]:
        """Tokens of the last step, of all beams; the padding token for those of prompts that were done before it."""
        if self._search is None or not self._num_new_tokens:
            raise StateError("no token was generated yet; call generate_next_token first")
        special = self._spec.tokens
        filler = special.pad if special.pad is not None else (special.eos or (0,))[0]
        return [filler if token is None else token for token in self._search.next_tokens]

    def sequence(self, index: int) -> Int64Array:
        """Tokens of result ``index % num_return_sequences`` of prompt ``index // num_return_sequences``."""
        each = self._options.num_return_sequences
        count = self.num_rows // self._options.num_beams * each
        if not 0 <= index < count:
            raise OptionError(f"sequence {index} was asked for; there are {count}, counted from 0")
        if not self._prompts:
            return np.zeros(0, np.int64)
        prompt, rank = divmod(index, each)
        if self._search is None:
            return self._prompts[prompt]
        found = self._search.results(prompt)
        if not found:
            raise StateError(
                f"prompt {prompt} has no result: penalties and bans left its beams no token to choose"
            )
        # fewer before there are so many different ones
        best = found[min(rank, len(found) - 1)]
        return np.concatenate([self._prompts[prompt], np.array(best.token_ids, np.int64)])

    def logits(self) -> Float32Array:
        """Logits of the next tokens ``[rows, 1, vocab]``; NaN for beams that are not followed any more."""
        search = self._started()
        # at first all beams of a prompt hold the same
        rows = search.open_rows() if self._num_new_tokens else range(self.num_rows)
        logits = np.full((self.num_rows, 1, self._spec.vocab_size), np.nan, np.float32)
        if len(rows):
            logits[rows, 0] = self._batch.forward(rows)
        return logits

    def hidden_states(self) -> Float32Array:
        """Not with beams: raises `CapabilityError`."""
        raise CapabilityError("hidden states of beams cannot be read; use num_beams=1")

    def last_run(self) -> LastRun:
        """Not with beams: raises `CapabilityError`."""
        raise CapabilityError("of beams only logits can be read; use num_beams=1")

    def last_input(self, role: str) -> Int64Array | None:
        """Not known of beams, which run in an order of their own."""
        del role
        return None

    def run_logits(self) -> Float32Array:
        """As `logits`."""
        return self.logits()

    def set_logits(self, logits: Float32Array) -> None:
        """Replace the logits ``[rows, vocab]`` of the next tokens; at first those of a prompt's first beam count."""
        self._started()
        for row, values in enumerate(logits):
            self._batch.set_logits(row, values)

    def keep_snapshot(self) -> None:
        """Nothing to keep: beams go back to their beginning only."""

    def rewind(self, length: int) -> None:
        """Begin anew: to 0 tokens, as beams that were dropped on the way cannot be had back."""
        if length == self.length:
            return
        if length:
            raise CapabilityError(
                f"beams cannot go back to {length} of {self.length} tokens: those that were dropped on the way are gone; "
                "rewind_to(0) begins anew"
            )
        for row in range(self.num_rows):
            self._batch.truncate(row, 0)
        self._prompts, self._search, self._num_new_tokens = [], None, 0

    def fork(self, batch: Batch) -> Self:
        """Not with beams: raises `CapabilityError`."""
        del batch
        raise CapabilityError("beams cannot be forked; use num_beams=1")

    def stats(self) -> Mapping[str, int | float | bool | list[int]]:
        """Nothing is guessed for beams."""
        return RoundCounts().report()

    def close(self) -> None:
        """Release the cache."""
        self._batch.close()

    def _started(self) -> BeamSearch:
        if self._search is not None:
            return self._search
        if self._prompts:
            raise self._full()
        raise StateError("there is nothing to continue; call append_tokens first")

    def _full(self) -> ContextLengthError:
        return max_length_reached(most=self._batch.max_tokens, context=self._spec.context_length)
