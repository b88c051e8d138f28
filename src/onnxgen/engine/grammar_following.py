"""What a grammar says to an answer that has got longer: it ends here, or these tokens must follow."""

from __future__ import annotations

import math

from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.constraints.state import GrammarState
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sample import Sample
from onnxgen.errors import GrammarError, OnnxgenError


def follow(sample: Sample) -> bool:
    """Let a sample's grammar follow its answer.

    Returns:
        Whether nothing but the end can come now; False without a grammar.

    Raises:
        GrammarError: The grammar cannot be followed any further.
    """
    state = sample.grammar
    if state is None:
        return False
    try:
        _catch_up(state, sample)
        return state.is_complete
    except Exception as error:  # noqa: BLE001 - whatever a grammar raises, only its own request ends
        raise as_grammar_error(error)  # noqa: B904 - it has its cause


def must_follow(sample: Sample) -> tuple[int, ...]:
    """Tokens that must come now in a sample that `follow` was called for, and for which the model is not asked.

    Raises:
        GrammarError: The grammar cannot be followed any further.
    """
    if sample.grammar is None:
        return ()
    try:
        return sample.grammar.forced()
    except Exception as error:  # noqa: BLE001 - as above
        raise as_grammar_error(error)  # noqa: B904 - as above


def _catch_up(state: GrammarState, sample: Sample) -> None:
    """Answers only grow: what is missing is at their end. A state may be ahead of an answer that is being appended."""
    missing = sample.num_new_tokens - state.num_tokens
    if missing == 1:
        state.advance((sample.tokens.last,))
    elif missing > 0:
        state.advance(sample.tokens[-missing:])
    elif missing < 0:
        state.follow(sample.answer)


def as_grammar_error(error: Exception) -> OnnxgenError:
    """An error of ours as it is; any other one as what happened in a grammar."""
    if isinstance(error, OnnxgenError):
        return error
    wrapped = GrammarError(f"the grammar cannot be followed any further: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


def wanted_grammar(request: EngineRequest) -> Grammar | None:
    """A request's grammar; one that writes no tokens by itself where each is looked at.

    That is where something is to be told or done of every single token, and where tokens are ruled out, which may be
    those that the grammar would write its text with.
    """
    grammar, options = request.grammar, request.sampling
    if grammar is None or not grammar.fast_forward:
        return grammar
    looks = bool(
        request.logprobs is not None
        or request.processors
        or request.sampler is not None
        or options.bad_words
        or options.no_repeat_ngram_size
        or any(bias == -math.inf for _, bias in options.logit_bias)
    )
    return grammar.with_fast_forward(False) if looks else grammar
