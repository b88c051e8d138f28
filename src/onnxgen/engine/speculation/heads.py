"""`HeadProposer`: a head of the model's own guesses from the hidden states that the model has made anyway.

A head computes, for the token behind each position, a row from that token and the hidden state of the position, and from it
what comes next. Where the token is a guess, there is no hidden state of the model's, and the head's own takes its place
(https://arxiv.org/abs/2404.19737, https://arxiv.org/abs/2401.15077, https://arxiv.org/abs/2503.01840)::

    position         6     7     8     9                    t9 is pending, and h6 to h8 are new since the last turn
    token            t6    t7    t8    t9
    first step         h6 t7  h7 t8  h8 t9  -> a, g9        three rows that stay
    then                                  g9 a -> b, g10    rows of guesses, which the next turn computes anew
                                               g10 b -> c

What a head knows of a sequence may begin anywhere: where the hidden states that it is given do not go on from those that it
had, it begins again with them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onnxgen.backends.base import AUX_HIDDEN_STATES, HIDDEN_STATES, Backend
from onnxgen.engine.speculation.base import Draft, Wanted
from onnxgen.engine.speculation.draft_budget import check_draft_budget
from onnxgen.engine.speculation.draft_cache import DraftCache, make_draft_cache
from onnxgen.engine.speculation.draft_rows import DraftRow
from onnxgen.engine.speculation.guesser import Guesser
from onnxgen.engine.speculation.options import MAX_DRAFT_TOKENS
from onnxgen.engine.tokens import TokenBuffer
from onnxgen.errors import CapabilityError
from onnxgen.metadata.model_spec import HeadSpec

Float32Array = npt.NDArray[np.float32]

_CACHE_MB = 256


@dataclass(frozen=True, slots=True)
class HeadOptions:
    """How a head is used.

    Attributes:
        cache_mb: Memory for its keys and values, in MiB; sequences that find no room there go without drafts. None: what
            ``cache_tokens`` says, and without that 256.
        cache_tokens: The same in token positions; not together with ``cache_mb``.
        min_confidence: As `DraftModelOptions.min_confidence`.
    """

    cache_mb: int | None = None
    cache_tokens: int | None = None
    min_confidence: float = 0.3

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            ConfigError: Naming the field, its value and the range.
        """
        check_draft_budget(
            "a head",
            cache_mb=self.cache_mb,
            cache_tokens=self.cache_tokens,
            min_confidence=self.min_confidence,
        )


@dataclass(slots=True)
class _Followed:
    """What the head has in its cache of a sequence.

    Attributes:
        start: Position of the first hidden state.
        num_rows: How many rows from there on are made of the model's own hidden states; those behind are of guesses.
    """

    start: int
    num_rows: int = 0


@dataclass(frozen=True, slots=True)
class _Turn:
    """A sequence that takes part in a turn.

    Attributes:
        row: Its tokens and guesses, as choosing sees them.
        tokens: Tokens of its rows in the head's cache.
        hidden: What the first step reads beside its last tokens, float32 ``[n, width]``.
    """

    row: DraftRow
    tokens: TokenBuffer
    hidden: Float32Array


class HeadProposer:
    """Guesses with a head of the model's own.

    Args:
        backend: Of the head; stays the caller's.
        head: What the folder says of it.
        vocab_size: Width of the logits of the model.
        options: Budgets.
        eos_ids: Nothing is guessed behind one of them.
        num_tokens: Ids from here on are padding of the vocabulary; None: there is none.
        unused_ids: Likewise, holes among the others.
        max_seq_tokens: The longest sequence that is followed; None: what the head's backend takes.

    Raises:
        BackendError: The cache cannot be had.
        CapabilityError: The head's graph reads no hidden states, or cannot go back to where a guess was wrong.
    """

    name = "heads"
    needs_hidden_states = True

    def __init__(
        self,
        backend: Backend,
        head: HeadSpec,
        *,
        vocab_size: int,
        options: HeadOptions | None = None,
        eos_ids: Collection[int] = (),
        num_tokens: int | None = None,
        unused_ids: Sequence[int] = (),
        max_seq_tokens: int | None = None,
    ) -> None:
        can, options = backend.capabilities, options or HeadOptions()
        self._first_input = AUX_HIDDEN_STATES if head.reads_aux else HIDDEN_STATES
        for name in {self._first_input, HIDDEN_STATES}:
            if name not in can.row_widths:
                raise CapabilityError(
                    f"{head.decoder.path} has no input {head.decoder.inputs.get(name)!r}, which genai_config.json gives as "
                    f"model.{head.name}.inputs.{name}"
                )
        if not can.rewind:
            raise CapabilityError(
                f"{head.decoder.path} keeps a recurrent state, which cannot go back to where a guess was wrong; a head "
                "with attention alone can be used"
            )
        self._width = can.row_widths[self._first_input]
        most = head.max_draft_tokens or MAX_DRAFT_TOKENS
        self._most_guesses = most if can.hidden_states else 1
        self._target_ids = None if head.target_ids is None else np.array(head.target_ids, np.int64)
        self._vocab_size = vocab_size
        self._limit = min(n for n in (can.max_context, max_seq_tokens) if n is not None)
        self._guesser = Guesser(
            vocab_size=vocab_size,
            eos_ids=eos_ids,
            num_tokens=num_tokens,
            unused_ids=unused_ids,
            min_confidence=options.min_confidence,
        )
        cache = make_draft_cache(
            backend,
            max_seq_tokens=self._limit,
            cache_mb=options.cache_mb,
            cache_tokens=options.cache_tokens,
            usual_mb=_CACHE_MB,
        )
        # rows depend on hidden states, too
        self._cache = DraftCache(backend, cache, share_prefixes=False)
        self._followed: dict[int, _Followed] = {}

    def propose(self, wanted: Sequence[Wanted]) -> list[Draft | None]:
        """A draft for each sequence; see `Proposer`.

        Raises:
            BackendError: The head failed.
            CapabilityError: The hidden states have another width than the head reads.
            StateError: This proposer was closed.
        """
        self._cache.begin_turn([one.key for one in wanted])
        turns = {one.key: turn for one in wanted if (turn := self._begin(one)) is not None}
        hidden, entry = {key: turn.hidden for key, turn in turns.items()}, self._first_input
        while hidden:
            counts = {key: len(rows) for key, rows in hidden.items()}
            ends, output = self._cache.compute(counts, {entry: hidden})
            going_on = self._guesser.guess([turns[key].row for key in ends], self._spread(output.logits))
            hidden = {}
            for at, (key, goes_on) in enumerate(zip(ends, going_on, strict=True)):
                if goes_on and output.hidden_states is not None:
                    turns[key].tokens.append(turns[key].row.guesses[-1])
                    hidden[key] = output.hidden_states[at : at + 1]
            entry = HIDDEN_STATES
        return [turns[one.key].row.draft if one.key in turns else None for one in wanted]

    def forget(self, key: int) -> None:
        """A sequence will not be asked for again."""
        self._guesser.forget(key)
        self._followed.pop(key, None)
        self._cache.forget(key)

    def close(self) -> None:
        """Release the cache. Calling it twice is harmless."""
        self._guesser.clear()
        self._followed.clear()
        self._cache.close()

    def check_integrity(self) -> None:
        """Check that every block is accounted for; for tests."""
        self._cache.check_integrity()

    def _begin(self, wanted: Wanted) -> _Turn | None:
        """What is to be guessed of a sequence; None where nothing is known to guess from, or there is no room."""
        hidden, history = wanted.hidden, wanted.history
        if hidden is None or not len(hidden):
            return None
        if hidden.shape[1] != self._width:
            raise CapabilityError(
                f"the head reads hidden states {self._width} wide, the model gives {hidden.shape[1]}: "
                "genai_config.json names other outputs than the head was made for"
            )
        hidden = hidden[-self._limit :]
        first = len(history) - 1 - len(hidden)
        followed = self._followed.pop(wanted.key, None)
        tokens = None if followed is None else self._go_on(wanted, followed, first)
        if followed is None or tokens is None:
            self._cache.forget(wanted.key)
            followed = _Followed(first)
            tokens = self._cache.follow(wanted.key, history[first + 1 :], room=self._room(wanted, first) - 1)
            if tokens is None:
                return None
        self._followed[wanted.key] = followed
        followed.num_rows = len(tokens)
        own = TokenBuffer()
        own.extend(history)
        row = self._guesser.begin(wanted, own, limit=self._room(wanted, followed.start))
        return _Turn(row, tokens, hidden)

    def _go_on(self, wanted: Wanted, followed: _Followed, first: int) -> TokenBuffer | None:
        """Tokens of a sequence's rows where those from position ``first`` on follow on what the cache has; else None."""
        room = self._room(wanted, followed.start)
        if not followed.start <= first <= followed.start + followed.num_rows:
            return None
        if room < min(
            wanted.num_tokens, self._most_guesses
        ):  # the head's context is full: begin again with less
            return None
        keep = first - followed.start
        own = wanted.history[followed.start + 1 :]
        tokens = self._cache.follow(wanted.key, own, room=room - 1, keep=keep)
        return tokens if tokens is not None and self._cache.length(wanted.key) == keep else None

    def _room(self, wanted: Wanted, start: int) -> int:
        """How many tokens can be guessed of a sequence whose rows begin at a position; the last guess is not computed."""
        num_rows = len(wanted.history) - 1 - start
        return max(min(wanted.num_tokens, self._most_guesses, self._limit - num_rows + 1), 1)

    def _spread(self, logits: Float32Array) -> Float32Array:
        """Logits where the model has these tokens, float32 ``[rows, vocab]``."""
        if self._target_ids is None:
            return logits
        spread = np.full((len(logits), self._vocab_size), -np.inf, np.float32)
        spread[:, self._target_ids] = logits
        return spread
