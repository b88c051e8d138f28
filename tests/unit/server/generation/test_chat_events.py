"""Chunks of a chat completion come to the very answer that is given without streaming."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_server import accumulated, events_of
from onnxgen.facade.results import Chunk, Completion, Timings, TokenLogprob, TopToken, Usage
from onnxgen.preprocess.tool_calls.tools import ToolCall
from onnxgen.server.generation.chat_answer import chat_choice
from onnxgen.server.generation.chat_events import ChatEvents
from onnxgen.server.generation.usage import usage_of

TEXTS = st.text(max_size=4)
CALLS = st.lists(st.builds(ToolCall, st.uuids().map(str), TEXTS, TEXTS), max_size=2).map(tuple)
LOGPROBS = st.floats(-1e6, 0) | st.just(float("-inf"))
TOKENS = st.builds(
    TokenLogprob,
    st.integers(0, 9),
    TEXTS,
    st.binary(max_size=3),
    LOGPROBS,
    st.just(1),
    st.lists(st.builds(TopToken, st.integers(0, 9), TEXTS, st.binary(max_size=3), LOGPROBS), max_size=2).map(
        tuple
    ),
    st.just(0),
)
PIECES = st.lists(
    st.tuples(TEXTS, TEXTS, CALLS, st.lists(TOKENS, max_size=2).map(tuple)), min_size=1, max_size=5
)
ENDS = st.sampled_from(["eos", "stop", "length", "deadline", "tool_calls", "cancelled"])


def answer_of(pieces, index, end, *, with_logprobs):
    """The chunks of an answer in these pieces; the last of them has the whole."""
    ids = list(range(len(pieces)))
    completion = Completion(
        "".join(piece[0] for piece in pieces),
        tuple(ids),
        end,
        Usage(7, len(ids), 3, reasoning_tokens=1),
        Timings(None, 0.5, 14.0, 2.0),
        reasoning="".join(piece[1] for piece in pieces),
        stop="x" if end == "stop" else None,
        logprobs=tuple(token for piece in pieces for token in piece[3]) if with_logprobs else None,
        tool_calls=tuple(call for piece in pieces for call in piece[2]),
    )
    chunks = [
        Chunk(
            text,
            (token_id,),
            index,
            reasoning=reasoning,
            tool_calls=calls,
            logprobs=logprobs if with_logprobs else (),
        )
        for token_id, (text, reasoning, calls, logprobs) in zip(ids, pieces, strict=True)
    ]
    last = chunks.pop()
    chunks.append(
        Chunk(
            last.text,
            last.token_ids,
            index,
            end,
            completion,
            reasoning=last.reasoning,
            tool_calls=last.tool_calls,
            logprobs=last.logprobs,
        )
    )
    return chunks, completion


def writer(n, **options):
    return ChatEvents(
        id="chatcmpl-1",
        created=5,
        model="m",
        fingerprint="fp_1",
        n=n,
        at_end=lambda completion: {},
        **{"with_usage": False, "with_logprobs": False, "show_reasoning": True, **options},
    )


def written(events, chunks):
    return events_of(
        b"".join([events.begin(), *(events.chunk(chunk) for chunk in chunks), events.end()]).decode()
    )


@given(
    st.lists(st.tuples(PIECES, ENDS), min_size=1, max_size=3),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.randoms(),
)
def test_what_is_streamed_is_what_is_given_whole(asked, with_logprobs, with_usage, show_reasoning, order):
    answers = [answer_of(p, i, end, with_logprobs=with_logprobs) for i, (p, end) in enumerate(asked)]
    queues = [list(chunks) for chunks, _ in answers]
    chunks = []
    while any(queues):
        chunks.append(order.choice([queue for queue in queues if queue]).pop(0))
    events = writer(
        len(answers), with_logprobs=with_logprobs, with_usage=with_usage, show_reasoning=show_reasoning
    )
    heard = written(events, chunks)
    assert all(list(event)[:2] == ["id", "object"] for event in heard)
    choices = [
        chat_choice(completion, i, show_reasoning=show_reasoning) for i, (_, completion) in enumerate(answers)
    ]
    for choice in choices:
        if choice["logprobs"] == {"content": [], "refusal": None}:
            choice["logprobs"] = None  # a stream cannot tell no tokens from no log probabilities
    assert accumulated(heard, n=len(answers)) == json.loads(json.dumps(choices))
    if with_usage:
        usage = usage_of([completion for _, completion in answers], n=len(answers))
        assert [event["usage"] for event in heard[:-1]] == [None] * (len(heard) - 1)
        assert (heard[-1]["choices"], heard[-1]["usage"]) == ([], usage)
    else:
        assert all("usage" not in event for event in heard)


def test_a_prompt_counts_once_however_many_answers_it_has():
    done = [answer_of([("a", "", (), ())] * k, 0, "eos", with_logprobs=False)[1] for k in (1, 2, 3, 4)]
    assert usage_of(done, n=2) == {
        "prompt_tokens": 14,
        "completion_tokens": 10,
        "total_tokens": 24,
        "prompt_tokens_details": {"cached_tokens": 6},
        "completion_tokens_details": {"reasoning_tokens": 4},
    }


@pytest.mark.parametrize("n", [1, 2])
def test_durations_come_with_the_end_of_the_only_answer(n):
    chunks = [
        c for i in range(n) for c in answer_of([("a", "", (), ())] * 5, i, "eos", with_logprobs=False)[0]
    ]
    heard = written(writer(n), chunks)
    assert [event["timings"] for event in heard if "timings" in event] == (
        [
            {
                "prompt_n": 4,
                "cache_n": 3,
                "predicted_n": 5,
                "prompt_ms": 500.0,
                "prompt_per_second": 14.0,
                "predicted_ms": 2000.0,
                "predicted_per_token_ms": 500.0,
                "predicted_per_second": 2.0,
            }
        ]
        if n == 1
        else []
    )
