"""Scripted answers as the pieces a model's answer comes in, for tests of the APIs that show them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from onnxgen.facade.results import Chunk, Completion, Timings, TokenLogprob, TopToken, Usage
from onnxgen.preprocess.tool_calls.tools import ToolCall

Piece = tuple[str, Any]
"""What comes (``reasoning``, ``text`` or ``call``), and the text or the call."""


def call(number: int, name: str = "get_weather", arguments: str = '{"city": "Lima"}') -> ToolCall:
    """A call of a tool."""
    return ToolCall(f"call_{number}", name, arguments)


def logprob(token: str) -> TokenLogprob:
    """A token with one other that could have been there."""
    data = token.encode()
    return TokenLogprob(7, token, data, -0.5, 1, (TopToken(8, token, data, -0.5),), 0)


def chunks(
    pieces: Iterable[Piece],
    *,
    finish: Any = "eos",
    stop: str | int | None = None,
    prompt: int = 11,
    cached: int = 4,
    logprobs: bool = False,
    rest: bool = True,
) -> list[Chunk]:
    """Pieces of an answer, one token each, and its end.

    Args:
        pieces: What comes.
        finish: How it ends.
        stop: What stopped it.
        prompt: Tokens of the prompt.
        cached: Those of them that were cached.
        logprobs: Pieces of text have log probabilities.
        rest: The last piece has the end; otherwise the end comes alone.
    """
    pieces = list(pieces)
    made: list[Chunk] = []
    for kind, what in pieces:
        told = (logprob(what),) if logprobs and kind != "call" else ()
        match kind:
            case "reasoning":
                made.append(Chunk("", (1,), reasoning=what, logprobs=told))
            case "text":
                made.append(Chunk(what, (2,), logprobs=told))
            case _:
                made.append(Chunk("", (3,), tool_calls=(what,)))
    completion = Completion(
        "".join(what for kind, what in pieces if kind == "text"),
        tuple(1 for _ in pieces),
        finish,
        Usage(
            prompt,
            len(pieces),
            cached,
            reasoning_tokens=sum(kind == "reasoning" for kind, _ in pieces),
        ),
        Timings(None, None, None, None),
        reasoning="".join(what for kind, what in pieces if kind == "reasoning"),
        stop=stop,
        tool_calls=tuple(what for kind, what in pieces if kind == "call"),
    )
    if not made or not rest:
        return [*made, Chunk("", (), finish_reason=finish, completion=completion)]
    last = made.pop()
    return [
        *made,
        Chunk(
            last.text,
            last.token_ids,
            finish_reason=finish,
            completion=completion,
            reasoning=last.reasoning,
            logprobs=last.logprobs,
            tool_calls=last.tool_calls,
        ),
    ]


def random_pieces(rng: random.Random) -> list[Piece]:
    """What a model might say, in any order."""
    texts = ("Hi", " ", "\n\n", "naïve ", "日本", "{", "}", '"')
    made: list[Piece] = []
    for n in range(rng.randrange(9)):
        kind = rng.choice(("reasoning", "text", "text", "call"))
        made.append((kind, call(n) if kind == "call" else rng.choice(texts)))
    return made
