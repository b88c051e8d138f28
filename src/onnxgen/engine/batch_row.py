"""`BatchRow`: what a `Batch` knows of one of its sequences."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from onnxgen.engine.embedded_tokens import EmbeddedTokens
from onnxgen.engine.tokens import TokenBuffer

Float32Array = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a sequence was after its first ``length`` tokens, where the backend cannot go back to it by itself.

    Attributes:
        length: How many tokens the cache held.
        long: On which side of the rotary switch they were computed.
        content: What `KVCache.export_block` gave of them.
        logits: Of the model after them; None where these are not known.
        hidden: Likewise the hidden states of the last of them.
    """

    length: int
    long: bool
    content: npt.NDArray[np.uint8]
    logits: Float32Array | None
    hidden: Float32Array | None


@dataclass(frozen=True, slots=True)
class Ahead:
    """What was computed behind the end of a sequence, for tokens that may come.

    Attributes:
        tokens: These tokens, at least one.
        logits: Of the token after each of them, float32 ``[tokens, vocab]``.
    """

    tokens: tuple[int, ...]
    logits: Float32Array

    def after_first(self) -> Ahead | None:
        """What is left when the first of them has come."""
        return Ahead(self.tokens[1:], self.logits[1:]) if len(self.tokens) > 1 else None


@dataclass(slots=True)
class BatchRow:
    """A sequence and what is known of it.

    Attributes:
        slot: Which part of the cache is its own.
        tokens: What it is.
        cached: How many of the tokens the cache holds.
        long: On which side of the rotary switch these were computed.
        logits: Of the token after the last one, ``[vocab]``; None when they must be computed.
        was_set: Whether somebody set them in place of the model's.
        hidden: Hidden states of the last token ``[hidden]``, once somebody asked for them.
        embedded: What the model reads in place of the embeddings of some tokens.
        snapshot: What the cache can be given back.
        checkpoint: Likewise, from before ``ahead`` was computed.
        ahead: What the cache holds behind the last token, all of which it then holds; None: nothing is known of that.
        awaits_copies: Whether some of what is cached is copied by the next step only.
    """

    slot: int
    tokens: TokenBuffer = field(default_factory=TokenBuffer)
    cached: int = 0
    long: bool = False
    logits: Float32Array | None = None
    was_set: bool = False
    hidden: Float32Array | None = None
    embedded: EmbeddedTokens | None = None
    snapshot: Snapshot | None = None
    checkpoint: Snapshot | None = None
    ahead: Ahead | None = None
    awaits_copies: bool = False

    @property
    def num_pending(self) -> int:
        """Tokens that the cache lacks."""
        return len(self.tokens) - self.cached

    def take_ahead(self, token: int) -> bool:
        """Append a token whose part of the cache is computed; False, and nothing changes, if it is another."""
        ahead = self.ahead
        if ahead is None or ahead.tokens[0] != token:
            return False
        self.tokens.append(token)
        self.cached += 1
        self.logits, self.was_set, self.hidden = ahead.logits[0], False, None
        self.ahead = ahead.after_first()
        return True

    def lose_snapshots(self, length: int) -> None:
        """Nothing beyond the first ``length`` tokens is true any more."""
        if self.snapshot is not None and self.snapshot.length > length:
            self.snapshot = None
        if self.checkpoint is not None and self.checkpoint.length > length:
            self.checkpoint = None

    def changed(self) -> None:
        """Its end is another one: what is known of that is not true any more."""
        self.logits = self.hidden = None
