"""`Generator`: the loop that an application embeds, by onnxruntime-genai's names."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt

from onnxgen.engine.batch import Batch
from onnxgen.engine.sampling.sampler import Sampler
from onnxgen.errors import CapabilityError, ContextLengthError, MetadataError, OptionError, StateError
from onnxgen.facade.guard import SingleUse
from onnxgen.facade.model import Model
from onnxgen.facade.params import GeneratorParams, sampling_from_search
from onnxgen.facade.rows import Row, split_rows
from onnxgen.facade.tensor import Tensor

Int32Array = npt.NDArray[np.int32]
Float32Array = npt.NDArray[np.float32]


class Generator:
    """Generates tokens for one or several rows in lock step. For one thread at a time.

    A call that raises leaves the generator as it was, ready for another try. Rewinding works for every model:
    continuing afterwards gives what a generator that never went further would give, sampling included.

    Args:
        model: The model to run; many generators may share it.
        params: Search options; later changes to them do not reach this generator.

    Raises:
        ContextLengthError: ``max_length`` is more than the model's context.
        CapabilityError: An option is not implemented in this version.
        OptionError: Options contradict each other.
    """

    def __init__(self, model: Model, params: GeneratorParams) -> None:
        params.check_supported()
        spec, search = model.spec, params.search
        for eos in spec.tokens.eos:
            if not 0 <= eos < spec.vocab_size:
                raise MetadataError(
                    f"{spec.source}: eos_token_id {eos} is outside the vocabulary of {spec.vocab_size} tokens"
                )
        self._model = model
        self._spec = spec
        self._max_length = params.resolve_max_length()
        self._num_rows = search.batch_size
        self._batch = Batch(
            model.backend,
            num_rows=search.batch_size,
            max_tokens=self._max_length,
            chunk_tokens=search.chunk_size or model.runtime.prefill_chunk_tokens,
            rope_switch_length=spec.decoder.rope_switch_length,
        )
        self._sampler = Sampler(
            [sampling_from_search(search, stream=i) for i in range(search.batch_size)],
            eos_ids=spec.tokens.eos,
        )
        self._rows = [Row() for _ in range(search.batch_size)]
        self._next_tokens: list[int] | None = None
        self._done = False
        self._has_logits = False
        self._terminated = False
        self._guard = SingleUse("generator")
        self._release = weakref.finalize(self, self._batch.close)

    def append_tokens(self, tokens: npt.ArrayLike | Tensor) -> None:
        """Append a prompt, or more of a conversation, and process it at once.

        Args:
            tokens: ``[n]`` for all rows together (``n / batch_size`` each), or ``[batch_size, n]`` padded on
                the right. With several rows the padding at a row's end is not processed, though it is part
                of what `get_sequence` gives.

        Raises:
            OptionError: There are no tokens, or their shape does not fit.
            TokenIdError: An id is outside the vocabulary.
            ContextLengthError: They do not fit ``max_length``.
            StateError: Several rows have tokens already.
            BackendError: Processing failed.
        """
        with self._guard:
            self._check_open()
            ids = split_rows(tokens, self._num_rows)
            if self._num_rows > 1 and self.token_count():
                raise StateError(
                    f"{self._num_rows} rows hold tokens already, and several rows take tokens once only; "
                    "call rewind_to(0) first"
                )
            self._check_room(ids.shape[1])
            pad = self._spec.tokens.pad if self._num_rows > 1 else None
            rows = [row.append(part, pad=pad) for row, part in zip(self._rows, ids, strict=True)]
            with self._batch.transaction():
                for i, row in enumerate(rows):
                    self._batch.extend(i, row.processed(self._rows[i]))
                self._batch.forward(range(self._num_rows))
            self._rows = rows
            self._done = False
            self._has_logits = True

    def generate_next_token(self) -> None:
        """Choose one token for every row that is not finished.

        Raises:
            StateError: There is nothing to continue, or all rows are finished.
            ContextLengthError: ``max_length`` is reached.
            BackendError: The step failed.
        """
        with self._guard:
            self._check_open()
            active = self._active_rows()
            logits = self._batch.forward(active)
            chosen = self._sampler(
                logits, sequences=active, histories=[self._batch.tokens(i) for i in active]
            )
            self._commit(dict(zip(active, chosen, strict=True)))

    def is_done(self) -> bool:
        """Whether all rows are finished: by an end-of-sequence token or by ``max_length``."""
        return self._done or self.token_count() == self._max_length

    def token_count(self) -> int:
        """Length of every row in tokens, padding included."""
        return self._rows[0].length

    def get_next_tokens(self) -> Int32Array:
        """The tokens of the last step, int32 ``[batch_size]``; finished rows have the padding token.

        Raises:
            StateError: No token was generated since the beginning or the last rewind.
        """
        with self._guard:
            if self._next_tokens is None:
                raise StateError("no token was generated yet; call generate_next_token first")
            return np.array(self._next_tokens, np.int32)

    def get_sequence(self, index: int) -> Int32Array:
        """All tokens of a row, int32 ``[token_count]``: prompt, padding as it was given, and answer.

        The end-of-sequence tokens of the last step are not part of it. With several rows, rows that finished
        before others have theirs, and padding after it.
        """
        with self._guard:
            if not 0 <= index < self._num_rows:
                raise OptionError(
                    f"sequence {index} was asked for; there are {self._num_rows}, counted from 0"
                )
            return self._rows[index].view().astype(np.int32)

    def get_logits(self) -> Float32Array:
        """Logits of the next token, float32 ``[batch_size, 1, vocab]``; NaN for finished rows.

        Raises:
            StateError: There are no tokens.
        """
        with self._guard:
            self._check_open()
            active = [i for i, row in enumerate(self._rows) if row.eos_at is None]
            logits = np.full((self._num_rows, 1, self._spec.vocab_size), np.nan, np.float32)
            if active:
                self._check_started()
                logits[active, 0] = self._batch.forward(active)
            return logits

    def set_logits(self, logits: npt.ArrayLike) -> None:
        """Replace the logits that the next token is chosen from.

        Args:
            logits: ``batch_size * vocab`` numbers in any shape.

        Raises:
            OptionError: Their number is wrong.
        """
        with self._guard:
            self._check_open()
            array = np.array(logits, np.float32)
            expected = self._num_rows * self._spec.vocab_size
            if array.size != expected:
                raise OptionError(
                    f"logits of shape {array.shape} were given; expected {expected} numbers "
                    f"({self._num_rows} rows of {self._spec.vocab_size})"
                )
            for i, row in enumerate(array.reshape(self._num_rows, -1)):
                self._batch.set_logits(i, row)
            self._has_logits = True

    def rewind_to(self, length: int) -> None:
        """Go back to the first ``length`` tokens of every row; 0 begins anew.

        Raises:
            OptionError: ``length`` is negative or more than there are.
        """
        with self._guard:
            self._check_open()
            length = operator.index(length)  # before anything is cut
            if not 0 <= length <= self.token_count():
                raise OptionError(f"cannot rewind to {length} tokens, there are {self.token_count()}")
            for i, row in enumerate(self._rows):
                row.truncate(length)
                self._batch.truncate(i, row.num_processed)
            self._next_tokens = None
            self._done = False
            self._has_logits = length > 0

    def snapshot_state(self) -> None:
        """Nothing to do: every position can be rewound to without a snapshot."""

    def get_output(self, name: str) -> Float32Array:
        """The logits by their graph name, as `get_logits` gives them.

        Raises:
            CapabilityError: Another output was asked for.
        """
        logits_name = self._spec.decoder.outputs.get("logits", "logits")
        if name != logits_name:
            raise CapabilityError(
                f"output {name!r} was asked for; only {logits_name!r} can be read in this version"
            )
        return self.get_logits()

    def get_input(self, name: str) -> NoReturn:
        """Not supported: raises `CapabilityError`."""
        raise CapabilityError(
            f"input {name!r} was asked for; graph inputs are packed for all rows of a step and cannot be read"
        )

    def set_inputs(self, inputs: Mapping[str, Any]) -> None:
        """Append the tokens of ``input_ids``.

        Raises:
            CapabilityError: There are other inputs.
        """
        others = sorted(set(inputs) - {"input_ids"})
        if others or "input_ids" not in inputs:
            raise CapabilityError(
                f"inputs {others or 'without input_ids'} cannot be given to a text model; use append_tokens"
            )
        self.append_tokens(inputs["input_ids"])

    def set_model_input(self, name: str, value: npt.ArrayLike) -> NoReturn:
        """Not supported: raises `CapabilityError`."""
        del value
        raise CapabilityError(f"input {name!r} cannot be set: this version runs token ids only")

    def set_hidden_states(self, value: npt.ArrayLike) -> NoReturn:
        """Not supported: raises `CapabilityError`."""
        del value
        raise CapabilityError(
            "hidden states cannot be given: this version has no multi-token prediction heads"
        )

    def set_active_adapter(self, adapters: object, name: str) -> NoReturn:
        """Not supported: raises `CapabilityError`."""
        del adapters
        raise CapabilityError(f"adapter {name!r} was asked for; this version has no adapters")

    def get_speculative_stats(self) -> NoReturn:
        """Not supported: raises `CapabilityError`."""
        raise CapabilityError("nothing is speculated in this version, so there are no statistics")

    def set_runtime_option(self, key: str, value: str) -> None:
        """Set ``terminate_session``: with "1" further steps raise, until it is "0" again. From any thread.

        Raises:
            OptionError: The value is neither "0" nor "1".
            CapabilityError: Another option was asked for.
        """
        if key == "enable_profiling" and value == "0":
            return
        if key != "terminate_session":
            raise CapabilityError(
                f"runtime option {key!r} cannot be set for one generator; put it in run_options of the model "
                "folder's genai_config.json"
            )
        if value not in ("0", "1"):
            raise OptionError(f"terminate_session must be '0' or '1', got {value!r}")
        self._terminated = value == "1"

    def close(self) -> None:
        """Release the cache. Calling it twice is harmless."""
        with self._guard:
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _active_rows(self) -> Sequence[int]:
        self._check_started()
        if self._done:
            raise StateError("all rows are finished; append tokens or rewind to go on")
        if self.token_count() == self._max_length:
            raise ContextLengthError(
                f"max_length is reached: {self.token_count()} of {self._max_length} tokens, prompt included; set a "
                f"larger max_length (the model's context is {self._spec.context_length})"
            )
        return [i for i, row in enumerate(self._rows) if row.eos_at is None]

    def _commit(self, chosen: Mapping[int, int]) -> None:
        """Take the step's tokens over; nothing below raises half way."""
        special = self._spec.tokens
        filler = special.pad if special.pad is not None else (special.eos or (0,))[0]
        tokens = [chosen.get(i, filler) for i in range(self._num_rows)]
        for i, token in chosen.items():
            if token in special.eos:
                self._rows[i].finish()
        self._next_tokens = tokens
        self._done = all(row.eos_at is not None for row in self._rows)
        if self._done:
            return  # what ended the last rows is not part of any sequence
        for i, row in enumerate(self._rows):
            row.add(tokens[i])
            if row.eos_at is None:
                self._batch.append(i, tokens[i])

    def _check_open(self) -> None:
        if not self._release.alive:
            raise StateError("this generator was closed; make a new one")
        if self._terminated:
            raise StateError("terminate_session is set; set_runtime_option('terminate_session', '0') goes on")

    def _check_started(self) -> None:
        if not self.token_count() and not self._has_logits:
            raise StateError("there is nothing to continue; call append_tokens (or set_logits) first")

    def _check_room(self, count: int) -> None:
        held = self.token_count()
        if held + count <= self._max_length:
            return
        after = f" after the {held} there are" if held else ""
        context = self._spec.context_length
        advice = (
            f"set a larger max_length (the model's context is {context})"
            if held + count <= context
            else f"shorten the prompt, the model's context is {context}"
        )
        raise ContextLengthError(
            f"{count} prompt tokens{after} do not fit max_length={self._max_length}, which counts prompt and answer "
            f"together; {advice}"
        )
