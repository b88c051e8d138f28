"""How many tokens of a draft an answer gets, and which one comes after them."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from onnxgen.engine.sample import Sample
from onnxgen.engine.sampling.rows import Drawn
from onnxgen.engine.speculation.acceptance import accept
from onnxgen.engine.speculation.base import Draft
from onnxgen.engine.speculation.drafts import shortened
from onnxgen.errors import OnnxgenError

Chosen = int | OnnxgenError


def ends_answer(sample: Sample, token: int, *, eos_ids: Container[int]) -> bool:
    """Whether a token ends a sample's answer, of which it is then no part."""
    request = sample.request
    if token in eos_ids and (not request.ignore_eos or sample.grammar is not None):
        return True
    return token in request.stop_token_ids


def equal_tokens(
    draft: Sequence[int], chosen: Sequence[Chosen], *, ends: Callable[[int], bool]
) -> tuple[int, ...] | OnnxgenError:
    """The tokens that are chosen without a draft, as far as it foretold them.

    Args:
        draft: What was guessed.
        chosen: What was chosen after the sequence, and after each token of the draft, or why nothing was.
        ends: Whether a token ends the answer.

    Returns:
        At least one token, or why there is none. Where choosing fails further on, what comes before it: it fails again
        in the step that goes on from there.
    """
    tokens: list[int] = []
    for at, token in enumerate(chosen):
        if isinstance(token, OnnxgenError):
            return tuple(tokens) or token
        tokens.append(token)
        if at == len(draft) or token != draft[at] or ends(token):
            break
    return tuple(tokens)


def drawn_tokens(
    draft: Draft,
    chosen: Sequence[Chosen],
    targets: Sequence[Drawn],
    sample: Sample,
    *,
    ends: Callable[[int], bool],
) -> tuple[int, ...] | OnnxgenError:
    """The tokens of a draft that was drawn at random that stand, and one more; see `accept`.

    Args:
        draft: What was guessed, with its distributions.
        chosen: As for `equal_tokens`; only looked at for errors.
        targets: What the tokens in ``chosen`` were drawn from, up to the first that is none.
        sample: Whose they are.
        ends: Whether a token ends the answer.
    """
    if isinstance(chosen[0], OnnxgenError):
        return chosen[0]
    seed, stream = sample.options.seed, sample.options.stream
    assert seed is not None
    usable = shortened(draft, len(targets) - 1)
    if usable is None:
        return (chosen[0],)
    tokens = accept(usable, targets, seed=seed, stream=stream, position=sample.num_tokens)
    end = next((at for at, token in enumerate(tokens) if ends(token)), len(tokens))
    return tokens[: end + 1]


def up_to_complete(sample: Sample, tokens: tuple[int, ...]) -> tuple[int, ...]:
    """The tokens of a sample up to the one with which its grammar is complete: the answer ends there."""
    if sample.grammar is None or len(tokens) == 1:
        return tokens
    answer = sample.answer.tolist()
    for count in range(1, len(tokens)):
        try:
            sample.grammar.follow([*answer, *tokens[:count]])
            if sample.grammar.is_complete:
                return tokens[:count]
        except OnnxgenError:  # told where the token is appended
            return tokens[:count]
    return tokens
