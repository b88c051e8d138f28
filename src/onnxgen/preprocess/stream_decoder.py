"""Builds the decoder of a ``tokenizer.json`` out of stages that take tokens as they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnxgen.preprocess.byte_level_decoder import decoder_steps
from onnxgen.preprocess.decoder_stages import (
    ByteFallbackStage,
    ByteLevelStage,
    DistinctStage,
    FirstStage,
    LastStage,
    MapStage,
    Stage,
)
from onnxgen.preprocess.text_stages import ReplaceTextStage, StripTextStage

_CLEANUPS = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" do not", " don't"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)


class StreamDecoder:
    """A chain of stages: tokens in, text out."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages

    def push(self, token: str) -> str:
        """Take a token and give the text that is final now."""
        return self._run((token,), 0)

    def close(self) -> str:
        """Give the rest of the text."""
        return "".join(self._run(stage.close(), n + 1) for n, stage in enumerate(self._stages))

    @property
    def held(self) -> int:
        """Characters of the text that are complete and not given yet."""
        count = 0
        for place, stage in enumerate(self._stages):
            text = stage.held
            for later in self._stages[place + 1 :] if text else ():
                if isinstance(later, StripTextStage):
                    text = later.without_start(text)
            count += len(text)
        return count

    def _run(self, pieces: Sequence[str], begin: int) -> str:
        for stage in self._stages[begin:]:
            if len(pieces) == 1:
                pieces = stage.push(pieces[0])
            else:
                pieces = [out for piece in pieces for out in stage.push(piece)]
        return pieces[0] if len(pieces) == 1 else "".join(pieces)


def stream_decoder(spec: Mapping[str, Any] | None) -> StreamDecoder | None:
    """Make a decoder from the ``decoder`` section of ``tokenizer.json``.

    Returns:
        None when a decoder of the chain needs the whole text before it can give any of it.
    """
    if spec is None:
        return StreamDecoder([FirstStage(_same, lambda token: " " + token)])
    stages: list[Stage] = []
    fused = False
    for part in decoder_steps(spec):
        if part["type"] == "Fuse":
            fused = True
            continue
        stage = _text_stage(part) if fused else _token_stage(part)
        if stage is None:
            return None
        stages.append(stage)
        fused = fused or part["type"] == "ByteLevel"
    return StreamDecoder(stages)


def token_bytes_reader(spec: Mapping[str, Any] | None) -> Callable[[str], bytes]:
    """Make a function from a token of the vocabulary to the bytes it adds in the middle of a text.

    Args:
        spec: The ``decoder`` section of ``tokenizer.json``.
    """
    if spec is None:
        return lambda token: (" " + token).encode()
    stages: list[Stage] = []
    fused = False
    for part in decoder_steps(spec):
        fused = fused or part["type"] == "Fuse"
        stage = (_text_stage(part) if fused else None) or _token_stage(part)
        stages += [] if stage is None else [stage]
        fused = fused or part["type"] == "ByteLevel"

    def read(token: str) -> bytes:
        piece: str | bytes = token
        for stage in stages:
            if isinstance(piece, bytes):
                try:
                    piece = piece.decode()
                except UnicodeDecodeError:
                    return piece
            piece = stage.middle(piece)
        return piece.encode() if isinstance(piece, str) else piece

    return read


def _token_stage(spec: Mapping[str, Any]) -> Stage | None:
    match spec["type"]:
        case "ByteLevel":
            return ByteLevelStage()
        case "ByteFallback":
            return ByteFallbackStage()
        case "Metaspace":
            return FirstStage(*_metaspace(spec))
        case "WordPiece":
            return FirstStage(*_word_piece(spec))
        case "BPEDecoder":
            suffix = spec["suffix"]
            return LastStage(lambda t: t.replace(suffix, " "), lambda t: t.replace(suffix, ""))
        case "CTC":
            return DistinctStage(_ctc(spec))
        case "Replace":
            return MapStage(_replace(spec))
        case "Strip":
            return MapStage(_strip(spec))
        case _:
            return None


def _text_stage(spec: Mapping[str, Any]) -> Stage | None:
    match spec["type"]:
        case "Metaspace":
            return MapStage(_metaspace(spec)[0])
        case "Strip":
            return StripTextStage(spec["content"], start=spec["start"], stop=spec["stop"])
        case "Replace" if "String" in spec["pattern"]:
            pattern = spec["pattern"]["String"]
            return ReplaceTextStage(pattern, spec["content"]) if pattern else MapStage(_same)
        case _:
            return None


def _metaspace(spec: Mapping[str, Any]) -> tuple[Callable[[str], str], Callable[[str], str]]:
    mark = spec["replacement"]
    first = " " if spec.get("prepend_scheme", "always") == "never" else ""
    return (lambda token: token.replace(mark, first), lambda token: token.replace(mark, " "))


def _word_piece(spec: Mapping[str, Any]) -> tuple[Callable[[str], str], Callable[[str], str]]:
    prefix = spec["prefix"]
    clean = _clean_up if spec["cleanup"] else _same

    def other(token: str) -> str:
        return clean(token.removeprefix(prefix) if token.startswith(prefix) else " " + token)

    return clean, other


def _ctc(spec: Mapping[str, Any]) -> Callable[[str], str]:
    pad, delimiter, cleanup = spec["pad_token"], spec["word_delimiter_token"], spec["cleanup"]

    def decode(token: str) -> str:
        text = token.replace(pad, "")
        return _clean_up(text).replace(delimiter, " ") if cleanup else text

    return decode


def _replace(spec: Mapping[str, Any]) -> Callable[[str], str]:
    pattern, content = spec["pattern"], spec["content"]
    if "String" in pattern:
        literal = pattern["String"]
        return (lambda token: token.replace(literal, content)) if literal else _same

    import tokenizers
    from tokenizers import decoders

    # The library's own regular expressions are not Python's, so it replaces them itself.
    decoder = decoders.Replace(tokenizers.Regex(pattern["Regex"]), content)
    return lambda token: decoder.decode([token])


def _strip(spec: Mapping[str, Any]) -> Callable[[str], str]:
    content, start, stop = spec["content"], spec["start"], spec["stop"]

    def strip(token: str) -> str:
        left = next((n for n in range(min(start, len(token))) if token[n] != content), min(start, len(token)))
        token = token[left:]
        right = next(
            (n for n in range(min(stop, len(token))) if token[-1 - n] != content), min(stop, len(token))
        )
        return token[: len(token) - right]

    return strip


def _clean_up(text: str) -> str:
    for pattern, replacement in _CLEANUPS:
        text = text.replace(pattern, replacement)
    return text


def _same(text: str) -> str:
    return text
