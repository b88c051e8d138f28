"""The decoders of ``tokenizer.json``, one token at a time.

The ``tokenizers`` library decodes a finished list of tokens. Each class here is one of its decoders
as a step that takes tokens as they come and gives back what can no longer change, so that all it has
given back, once closed, is what the library makes of the whole list. Those here map tokens to tokens;
once a decoder has fused everything into one string, `text_stages` take that string in pieces.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import Protocol

from onnxgen.preprocess.byte_alphabet import token_bytes
from onnxgen.preprocess.byte_level_decoder import BYTE_TOKEN

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Stage(Protocol):
    """A step of decoding: pieces in, the pieces that are final out."""

    def push(self, piece: str) -> Sequence[str]:
        """Take one piece (a token, or part of the fused text) and give what is now final."""
        ...

    def close(self) -> Sequence[str]:
        """Give the rest; nothing comes after."""
        ...

    def middle(self, piece: str) -> str | bytes:
        """What a whole token becomes by itself, neither first nor last; bytes where they may be half a character."""
        ...

    @property
    def held(self) -> str:
        """Text of whole characters that is held all the same, because what comes may change it."""
        ...


class MapStage:
    """Each piece by itself: decoders that look at one token, or one character, at a time."""

    def __init__(self, function: Callable[[str], str]) -> None:
        self._function = function

    def push(self, piece: str) -> Sequence[str]:
        """Map the piece."""
        return (self._function(piece),)

    def close(self) -> Sequence[str]:
        """Nothing is ever held."""
        return ()

    def middle(self, piece: str) -> str | bytes:
        """Map the token."""
        return self._function(piece)

    @property
    def held(self) -> str:
        """Nothing is ever held."""
        return ""


class FirstStage:
    """Decoders that treat the first token unlike the others (Metaspace, WordPiece, no decoder)."""

    def __init__(self, first: Callable[[str], str], others: Callable[[str], str]) -> None:
        self._function = first
        self._others = others

    def push(self, piece: str) -> Sequence[str]:
        """Map the token by its place."""
        result = self._function(piece)
        self._function = self._others
        return (result,)

    def close(self) -> Sequence[str]:
        """Nothing is ever held."""
        return ()

    def middle(self, piece: str) -> str | bytes:
        """Map the token as one that is not the first."""
        return self._others(piece)

    @property
    def held(self) -> str:
        """Nothing is ever held."""
        return ""


class LastStage:
    """Decoders that treat the last token unlike the others (BPEDecoder): one token is held."""

    def __init__(self, others: Callable[[str], str], last: Callable[[str], str]) -> None:
        self._others = others
        self._last = last
        self._held: str | None = None

    def push(self, piece: str) -> Sequence[str]:
        """Give the token before this one."""
        held, self._held = self._held, piece
        return () if held is None else (self._others(held),)

    def close(self) -> Sequence[str]:
        """Give the last token."""
        held, self._held = self._held, None
        return () if held is None else (self._last(held),)

    def middle(self, piece: str) -> str | bytes:
        """Map the token as one that is not the last."""
        return self._others(piece)

    @property
    def held(self) -> str:
        """The token before, as far as it does not depend on whether another one follows."""
        return "" if self._held is None else self._last(self._held)


class DistinctStage:
    """Drops a token equal to the one before it, then maps the rest and drops empty results (CTC)."""

    def __init__(self, function: Callable[[str], str]) -> None:
        self._function = function
        self._previous: str | None = None

    def push(self, piece: str) -> Sequence[str]:
        """Map the token unless it repeats."""
        if piece == self._previous:
            return ()
        self._previous = piece
        text = self._function(piece)
        return (text,) if text else ()

    def close(self) -> Sequence[str]:
        """Nothing is ever held."""
        return ()

    def middle(self, piece: str) -> str | bytes:
        """Map the token as one that does not repeat."""
        return self._function(piece)

    @property
    def held(self) -> str:
        """Nothing is ever held."""
        return ""


class ByteFallbackStage:
    """Runs of ``<0xNN>`` tokens become the characters they spell.

    A run is read all or nothing: if its bytes are not UTF-8 as a whole, each byte of it becomes one
    U+FFFD. So a run is held until another token ends it, or until it can't become UTF-8 any more.
    """

    def __init__(self) -> None:
        self._run = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._broken = False
        self._complete = ""

    def push(self, piece: str) -> Sequence[str]:
        """Collect a byte, or end the run and pass the token on."""
        byte = _fallback_byte(piece)
        if byte is None:
            return (*self._end_run(), piece) if self._run or self._broken else (piece,)
        if self._broken:
            return (_REPLACEMENT,)
        self._run.append(byte)
        try:
            self._complete += self._decoder.decode(bytes((byte,)))
        except UnicodeDecodeError:
            self._broken = True
            self._complete = ""
            return self._give_up()
        return ()

    def close(self) -> Sequence[str]:
        """End the run at the end of the text."""
        return self._end_run()

    def middle(self, piece: str) -> str | bytes:
        """The byte that the token spells, or the token."""
        byte = _fallback_byte(piece)
        return piece if byte is None else bytes((byte,))

    @property
    def held(self) -> str:
        """The run so far."""
        return self._complete

    def _end_run(self) -> Sequence[str]:
        self._broken = False
        self._complete = ""
        self._decoder.reset()
        try:
            text = self._run.decode()
        except UnicodeDecodeError:
            return self._give_up()
        self._run.clear()
        return (text,) if text else ()

    def _give_up(self) -> Sequence[str]:
        length = len(self._run)
        self._run.clear()
        return (_REPLACEMENT * length,)


class ByteLevelStage:
    """Tokens of a byte-level vocabulary to text: their bytes in a row, decoded as UTF-8.

    What is not UTF-8 becomes U+FFFD, one for each longest start of a character that leads nowhere.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, piece: str) -> Sequence[str]:
        """Give the characters that are complete."""
        return (self._decoder.decode(token_bytes(piece)),)

    def close(self) -> Sequence[str]:
        """A character cut short becomes U+FFFD."""
        return (self._decoder.decode(b"", final=True),)

    def middle(self, piece: str) -> str | bytes:
        """Bytes of the token."""
        return token_bytes(piece)

    @property
    def held(self) -> str:
        """Only what is no character yet is held."""
        return ""


def _fallback_byte(token: str) -> int | None:
    if not token.startswith("<0x"):
        return None
    match = BYTE_TOKEN.fullmatch(token)
    return int(match[1], 16) if match else None
