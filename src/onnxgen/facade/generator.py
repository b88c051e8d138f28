"""`Generator`: the loop that an application embeds, by onnxruntime-genai's names."""

from __future__ import annotations

import copy
import operator
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from onnxgen.backends.base import INPUTS_EMBEDS
from onnxgen.errors import CapabilityError, MetadataError, OptionError, StateError
from onnxgen.facade.adapters import Adapters
from onnxgen.facade.graph_outputs import GraphOutputs
from onnxgen.facade.guard import SingleUse
from onnxgen.facade.log_options import is_told, tell
from onnxgen.facade.model import Model
from onnxgen.facade.model_inputs import ModelInputs
from onnxgen.facade.params import GeneratorParams
from onnxgen.facade.rows import split_embeds, split_prompt, split_rows
from onnxgen.facade.search.choice import open_batch, open_search
from onnxgen.facade.tensor import Tensor

Int32Array = npt.NDArray[np.int32]
Float32Array = npt.NDArray[np.float32]

HIDDEN_STATES = "hidden_states"
"""Name of the hidden states where the model folder gives them none."""


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
        spec, search = model.spec, params.search
        for eos in spec.tokens.eos:
            if not 0 <= eos < spec.vocab_size:
                raise MetadataError(
                    f"{spec.source}: eos_token_id {eos} is outside the vocabulary of {spec.vocab_size} tokens"
                )
        self._model = model
        self._spec = spec
        self._batch_size = search.batch_size
        self._max_length = params.resolve_max_length()
        self._batch = open_batch(model, params)
        self._search = open_search(self._batch, model, params)
        self._adapters: tuple[str, ...] = ()
        self._loaded_in: Adapters | None = None
        self._inputs = ModelInputs(model.backend)
        self._outputs = GraphOutputs(model, {})
        self._next_embeds: Float32Array | None = None
        self._terminated = False
        self._hold()

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
            ids = split_rows(tokens, self._batch_size)
            self._append(ids, self._next_embeds)
            self._next_embeds = None
            tell(
                "append_next_tokens",
                "%d tokens appended to each row, %d in all",
                ids.shape[1],
                self._search.length,
            )

    def generate_next_token(self) -> None:
        """Choose one token for every row that is not finished.

        Raises:
            StateError: There is nothing to continue, or all rows are finished.
            ContextLengthError: ``max_length`` is reached.
            BackendError: The step failed.
        """
        with self._guard:
            self._check_open()
            search = self._search
            search.step()
            if is_told("generate_next_token"):
                tell("generate_next_token", "token %d: %s", search.length, search.next_tokens())
            if search.done:
                self._tell_end()

    def _tell_end(self) -> None:
        if self._search.length == self._max_length:
            tell("hit_max_length", "max_length %d is reached", self._max_length)
        else:
            tell("hit_eos", "all rows are finished after %d tokens", self._search.length)

    def is_done(self) -> bool:
        """Whether all rows are finished: by an end-of-sequence token or by ``max_length``."""
        return self._search.done

    def token_count(self) -> int:
        """Length of every row in tokens, padding included."""
        return self._search.length

    def get_next_tokens(self) -> Int32Array:
        """The tokens of the last step, int32 ``[batch_size]``; finished rows have the padding token.

        Raises:
            StateError: No token was generated since the beginning or the last rewind.
        """
        with self._guard:
            return np.array(self._search.next_tokens(), np.int32)

    def get_sequence(self, index: int) -> Int32Array:
        """All tokens of a row, int32 ``[token_count]``: prompt, padding as it was given, and answer.

        The end-of-sequence tokens of the last step are not part of it. With several rows, rows that finished
        before others have theirs, and padding after it.
        """
        with self._guard:
            return self._search.sequence(index).astype(np.int32)

    def get_logits(self) -> Float32Array:
        """Logits of the next token, float32 ``[batch_size, 1, vocab]``; NaN for finished rows.

        Raises:
            StateError: There are no tokens.
        """
        with self._guard:
            self._check_open()
            return self._search.logits()

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
            rows = self._search.num_rows
            expected = rows * self._spec.vocab_size
            if array.size != expected:
                raise OptionError(
                    f"logits of shape {array.shape} were given; expected {expected} numbers "
                    f"({rows} rows of {self._spec.vocab_size})"
                )
            self._search.set_logits(array.reshape(rows, -1))

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
            self._search.rewind(length)

    def snapshot_state(self) -> None:
        """Make it cheap to rewind to here, or to any length after it, for models with a recurrent state.

        Every position of every model can be rewound to without; such a model then computes its sequence anew, from the
        last snapshot at or before that position on, if there is one. The last snapshot replaces the one before; a rewind
        to before it drops it.

        Raises:
            BackendError: The step failed.
        """
        with self._guard:
            self._check_open()
            self._search.keep_snapshot()

    def fork(self) -> Self:
        """Another generator that goes on from here, independently of this one, and with what the cache holds.

        With ``random_seed`` it draws what this one would draw, without it draws of its own. onnxruntime-genai has no such
        call.

        Raises:
            CapabilityError: Beams cannot be forked.
            BackendError: There is no memory for what the cache holds.
        """
        with self._guard:
            self._check_open()
            batch = self._batch.fork()
            try:
                other = copy.copy(self)
                other._batch, other._search = batch, self._search.fork(batch)
            except BaseException:
                batch.close()
                raise
            other._inputs = self._inputs.fork()
            other._outputs = GraphOutputs(self._model, other._inputs.values)
            other._hold()
            if self._loaded_in is not None:
                active, release = self._loaded_in.activate(self._adapters)
                other._held.callback(release)
                batch.adopt_adapter(active)
            elif self._inputs.values and self._search.length:
                batch.adopt_adapter(other._inputs.bind())
            return other

    def get_output(self, name: str) -> npt.NDArray[Any]:
        """An output of the last run, by its name in the graph.

        Logits are float32 ``[batch_size, n, vocab]``, of the ``n`` tokens that were run last (of a prompt all are computed
        again when they are asked for), and ``hidden_states`` float32 ``[batch_size, n, hidden]``, which every graph with
        a head has; both with NaN for padding and finished rows.

        Everything else is what the folder's own graph gives for all rows at once, caches (``present.*``) included, which
        hold as many positions as there are. It is loaded a second time, and run beside the generator, when the first of
        these is asked for; asked for after every token, it costs a run each time, and else it runs what went before as well.

        Raises:
            CapabilityError: There is no such output that can be read; the message has those there are.
            StateError: There are no tokens, or nothing was run since the last rewind.
            BackendError: A run failed.
        """
        outputs = self._spec.decoder.outputs
        with self._guard:
            self._check_open()
            if name == (outputs.get("logits") or "logits"):
                return self._search.run_logits()
            if name in (outputs.get("hidden_states") or HIDDEN_STATES, HIDDEN_STATES):
                return self._search.hidden_states()
            if self._adapters:
                raise CapabilityError(
                    f"output {name!r} cannot be read while adapters are active; logits and {HIDDEN_STATES} can be read"
                )
            return self._outputs.read(name, self._search.last_run)

    def get_input(self, name: str) -> npt.NDArray[np.int64]:
        """An input of the last run, by its name in the graph.

        These are ids and positions, int64 ``[batch_size, n]``, and the mask, int64 ``[batch_size, total]``, as a graph
        that runs all rows at once would be given them.

        Raises:
            CapabilityError: There is no such input that can be read.
            StateError: Nothing was run since the beginning or the last rewind.
        """
        with self._guard:
            self._check_open()
            role = next((role for role, own in self._spec.decoder.inputs.items() if own == name), name)
            value = self._search.last_input(role)
            if value is None:
                raise CapabilityError(
                    f"input {name!r} was asked for; input_ids, position_ids and attention_mask can be read, and not of beams"
                )
            return value

    def set_inputs(self, inputs: Mapping[str, Any]) -> None:
        """Append a prompt: ``input_ids``, or ``inputs_embeds`` ``[batch_size, n, width]``, or both.

        With embeddings the model reads these; the ids are then what `get_sequence` and penalties see, zeros where there
        are none.

        Raises:
            CapabilityError: There are other inputs, or the model takes no embeddings.
            OptionError: Their shapes do not fit.
        """
        width = self._model.backend.capabilities.embedding_size
        ids, embeds = split_prompt(inputs, self._batch_size, width)
        if embeds is None:
            self.append_tokens(ids)
            return
        with self._guard:
            self._check_open()
            self._append(ids, embeds)

    def set_model_input(self, name: str, value: npt.ArrayLike) -> None:
        """Give an input of the graph a value, for all runs, before the first tokens are appended.

        ``inputs_embeds`` are those of the tokens that are appended next.

        Raises:
            CapabilityError: The graph has no such input, or it is filled here; the message has those there are.
            OptionError: Embeddings of a wrong shape. Other values are looked at when the first tokens are appended.
            StateError: There are tokens already.
        """
        with self._guard:
            self._check_open()
            if name != INPUTS_EMBEDS:
                self._inputs.check(name)
            if self._search.length:
                raise StateError(
                    f"{name} was given after tokens were appended; give it before the first ones"
                )
            if name == INPUTS_EMBEDS:
                width = self._model.backend.capabilities.embedding_size
                self._next_embeds = split_embeds(value, self._batch_size, width)
                return
            if self._adapters:
                raise CapabilityError(f"input {name!r} cannot be set while adapters are active")
            self._inputs.set(name, value)
            self._outputs = GraphOutputs(self._model, self._inputs.values)

    def set_hidden_states(self, value: npt.ArrayLike) -> None:
        """Give ``hidden_states``, or what the folder calls them, as `set_model_input` does.

        Raises:
            CapabilityError: The graph has no such input, as is so of all decoders that do not draft for another.
        """
        self.set_model_input(self._spec.decoder.inputs.get(HIDDEN_STATES, HIDDEN_STATES), value)

    def set_active_adapter(self, adapters: Adapters, name: str) -> None:
        """Run the model with an adapter; with several, one after the other, what they do adds up.

        Args:
            adapters: Where it was loaded.
            name: Its name.

        Raises:
            OptionError: There is no such adapter, it is active already, or ``adapters`` belong to another model.
            StateError: There are tokens already, which were processed without it.
            ModelFileError: Of several adapters, the file of one is no longer what it was.
        """
        with self._guard:
            self._check_open()
            if adapters.model is not self._model:
                raise OptionError(f"adapter {name!r} is of another model than this generator")
            if self._inputs.values:
                raise CapabilityError(
                    f"adapter {name!r} cannot be active together with values of inputs ({', '.join(self._inputs.values)})"
                )
            if name in self._adapters:
                raise OptionError(f"adapter {name!r} is active already")
            if self._search.length:
                raise StateError(
                    f"adapter {name!r} was set after {self._search.length} tokens were processed without it; set it before "
                    "the first ones are appended, or call rewind_to(0) first"
                )
            active, release = adapters.activate((*self._adapters, name))
            self._held.callback(release)
            self._batch.use_adapter(active)
            self._adapters += (name,)
            self._loaded_in = adapters

    def get_speculative_stats(self) -> dict[str, int | float | bool | list[int]]:
        """What guessing ahead did since the generator was made, as onnxruntime-genai counts it; zeros without it.

        A round's last token is run together with the next guess, and nothing is replayed: ``reconciliation`` counts stay
        0, and ``reanchor`` ones are of tokens that were run alone. ``acceptance_length_histogram`` has completed rounds by
        how many guesses were right: 0 to 6, and more.
        """
        with self._guard:
            return dict(self._search.stats())

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
            self._loaded_in = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, ids: npt.NDArray[np.int64], embeds: Float32Array | None) -> None:
        if embeds is not None and embeds.shape[:2] != ids.shape:
            raise OptionError(f"embeddings of shape {embeds.shape} do not fit ids of shape {ids.shape}")
        if self._inputs.values and not self._search.length:
            self._batch.use_adapter(self._inputs.bind())
        self._search.append(ids, embeds=embeds)

    def _hold(self) -> None:
        """Have a lock, and hold what is to be released, of its own."""
        self._guard = SingleUse("generator")
        self._held = ExitStack()
        self._held.callback(self._inputs.close)
        self._held.callback(self._search.close)
        self._release = weakref.finalize(self, self._held.close)

    def _check_open(self) -> None:
        if not self._release.alive:
            raise StateError("this generator was closed; make a new one")
        if self._terminated:
            raise StateError("terminate_session is set; set_runtime_option('terminate_session', '0') goes on")
