"""`Answer` and `Answers`: what becomes of tokens, of stop texts, and of what an answer ends with."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onnxgen.engine.events import EngineEvent, TokenUsage
from onnxgen.errors import BackendError
from onnxgen.facade.answers import Answers
from onnxgen.facade.generation_options import GenerationOptions
from onnxgen.facade.model_text import ModelText
from onnxgen.facade.prompt_options import PromptOptions
from onnxgen.facade.results import Usage
from tiny_tokenizer import EOS
from tool_models import TOOLS, call_text, user, write_tool_folder

TIME, WEATHER = call_text("time"), call_text("weather", place="time 😀")
ENDS = ("eos", "stop", "length", "cancelled", "deadline")
USED = TokenUsage(
    prompt_tokens=3, completion_tokens=9, cached_tokens=2, draft_tokens=7, accepted_draft_tokens=4
)
SAID = (
    "a",
    " ",
    "\n",
    "time",
    "<think>",
    "</think>",
    "é",
    "😀",
    "stop",
    TIME,
    "<tool_call>",
    "</tool_call>",
    "{",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return ModelText(write_tool_folder(tmp_path_factory.mktemp("answer") / "model"))


def start(model, *, tools=TOOLS, n=1, **options):
    question = model.chat_question(
        [user("q")], GenerationOptions(n=n, **options), PromptOptions(), tools=tools
    )
    return model.start_answers(question)


def events(model, text, end="eos"):
    """What an engine says of an answer: its tokens, and how it ends."""
    ids = model.tokenizer.encode(text)
    yield from (EngineEvent(0, 0, token) for token in ids)
    ends_by_token = end in ("eos", "stop")
    yield EngineEvent(
        0, 0, EOS if ends_by_token else None, is_eos=ends_by_token, finish_reason=end, usage=USED
    )


def chunks_of(model, text, end="eos", **options):
    [answer] = start(model, **options)
    heard = []
    for event in events(model, text, end):
        chunk = answer.push(event)
        heard += [] if chunk is None else [chunk]
        if chunk is not None and chunk.finish_reason is not None:
            break
    return heard


def done(model, text, end="eos", **options):
    return chunks_of(model, text, end, **options)[-1].completion


def names(completion):
    return [call.name for call in completion.tool_calls]


@pytest.mark.parametrize("end", ENDS)
def test_only_a_model_that_ends_its_turn_calls_tools(model, end):
    found = done(model, f"So: {WEATHER}\n{TIME}", end)
    assert found.finish_reason == ("tool_calls" if end == "eos" else end)
    assert (found.text, names(found)) == ("So:", ["weather", "time"])
    assert found.stop == (EOS if end == "stop" else None)
    assert done(model, "So.", end).finish_reason == end


@pytest.mark.parametrize("end", ENDS)
def test_a_call_that_was_cut_is_text(model, end):
    text = TIME.removesuffix("\n</tool_call>")
    found = done(model, f"So: {text}", end)
    if end in ("eos", "stop"):  # the model ended it by itself, with another token
        assert (found.text, names(found)) == ("So:", ["time"])
    else:
        assert (found.text, names(found), found.finish_reason) == (f"So: {text}", [], end)


@pytest.mark.parametrize("end", ENDS)
def test_reasoning_that_was_cut_is_reasoning(model, end):
    found = done(model, f"<think>hm {TIME}", end)
    assert (found.reasoning, found.text, names(found)) == (f"hm {TIME}", "", [])
    assert found.finish_reason == end


def test_without_tools_calls_are_text(model):
    found = done(model, TIME, tools=None)
    assert (found.text, found.tool_calls, found.finish_reason) == (TIME, (), "eos")


class TestStopTexts:
    def test_look_at_what_is_visible_only(self, model):
        found = done(model, f"<think>time</think>a {WEATHER} b {TIME} time c", stop=["time", "name"])
        assert (found.reasoning, found.text) == ("time", "a b ")
        assert names(found) == ["weather", "time"]
        assert (found.finish_reason, found.stop) == ("stop", "time")

    def test_do_not_reach_across_a_call(self, model):
        found = done(model, f"a {TIME} b", stop=["ab"])
        assert (found.text, found.finish_reason) == ("a b", "tool_calls")

    def test_reach_across_reasoning_and_pieces(self, model):
        found = done(model, "<think>x</think>\n\none, two, three", stop=["e, two, t"])
        assert (found.text, found.stop) == ("on", "e, two, t")

    def test_are_found_in_a_call_that_turns_out_to_be_text(self, model):
        found = done(model, "a <tool_call>time</tool_call> b", stop="time")
        assert (found.text, found.stop, found.finish_reason) == ("a <tool_call>", "time", "stop")

    @pytest.mark.parametrize("end", ENDS)
    def test_are_found_in_what_was_held_back_to_the_end(self, model, end):
        found = done(model, "a <tool_call>tim", end, stop="tim")
        assert (found.text, found.stop, found.finish_reason) == ("a <tool_call>", "tim", "stop")

    def test_that_are_not_completed_are_shown(self, model):
        assert done(model, "a ti", stop="time").text == "a ti"

    def test_before_a_call_end_the_answer(self, model):
        found = done(model, f"a time {TIME}", stop="time")
        assert (found.text, names(found), found.finish_reason) == ("a ", [], "stop")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.sampled_from(SAID), max_size=8),
    st.sampled_from(ENDS),
    st.sets(st.sampled_from(["stop", "a\n", "{"])),
)
def test_pieces_add_up(model, said, end, stop):
    heard = chunks_of(model, "".join(said), end, stop=sorted(stop))
    found = heard[-1].completion
    assert [chunk.completion for chunk in heard[:-1]] == [None] * (len(heard) - 1)
    assert "".join(chunk.text for chunk in heard) == found.text
    assert "".join(chunk.reasoning for chunk in heard) == found.reasoning
    assert [token for chunk in heard for token in chunk.token_ids] == list(found.token_ids)
    assert [call for chunk in heard for call in chunk.tool_calls] == list(found.tool_calls)
    assert len({call.id for call in found.tool_calls}) == len(found.tool_calls)
    assert all(text not in found.text for text in stop)
    if stop:
        free = done(model, "".join(said), end)
        assert free.reasoning.startswith(found.reasoning)
        assert found.finish_reason in ("stop", free.finish_reason)
    assert not any(c.text + c.reasoning == "" and not c.tool_calls for c in heard[:-1]), (
        "pieces say something"
    )


def test_the_message_of_an_answer_grows_with_it(model):
    [answer] = start(model)
    seen = []
    for event in events(model, f"<think>hm</think>a {TIME}"):
        answer.push(event)
        seen.append(answer.message)
    assert {"role": "assistant", "content": "", "reasoning_content": "h"} in seen
    assert {"role": "assistant", "content": "a", "reasoning_content": "hm"} in seen
    assert [call["function"]["name"] for call in seen[-1]["tool_calls"]] == ["time"]


def test_what_was_guessed_is_counted(model):
    found = done(model, "abc")
    size = len(start(model)[0]._question.request.prompt)
    assert found.usage == Usage(size, 3, 2, 7, 4)


class TestAnswers:
    def hear(self, model, answers, heard):
        stopped = []
        growing = Answers(answers, stop=stopped.append)
        pieces = [growing.hear(event, event.index) for event in heard]
        return [piece for piece in pieces if piece is not None], stopped, growing

    def test_a_stop_text_ends_the_sample_and_its_end_tells_what_was_used(self, model):
        tokens = list(events(model, f"{TIME} ab", "cancelled"))
        late = EngineEvent(0, 0, 50)
        pieces, stopped, growing = self.hear(
            model, start(model, stop="b"), [*tokens[:-1], late, late, tokens[-1]]
        )
        assert [event.token_id for event in stopped] == [tokens[-2].token_id]
        last = pieces[-1]
        assert (last.text, last.token_ids, last.tool_calls, last.finish_reason) == ("", (), (), "stop")
        found = last.completion
        assert (found.text, names(found), found.stop) == ("a", ["time"], "b")
        assert found.usage == Usage(found.usage.prompt_tokens, len(tokens) - 1, 2, 7, 4)
        assert [token for piece in pieces for token in piece.token_ids] == list(found.token_ids)
        assert [call for piece in pieces for call in piece.tool_calls] == list(found.tool_calls)
        assert sum(piece.finish_reason is not None for piece in pieces) == 1
        assert growing.all_ended

    def test_a_stop_text_in_the_last_token_needs_no_stop(self, model):
        [*tokens, _] = events(model, "ab")
        ended = EngineEvent(0, 0, tokens[-1].token_id, finish_reason="length", usage=USED)
        pieces, stopped, growing = self.hear(model, start(model, stop="b"), [*tokens[:-1], ended])
        assert stopped == []
        assert (pieces[-1].finish_reason, pieces[-1].completion.usage.draft_tokens) == ("stop", 7)
        assert growing.all_ended

    def test_an_error_ends_one_answer_only(self, model):
        error = BackendError("no luck")
        heard = [
            EngineEvent(0, 0, 70),
            EngineEvent(0, 0, finish_reason="error", error=error),
            EngineEvent(0, 0, 70),
            EngineEvent(0, 1, 70),
            EngineEvent(0, 1, EOS, is_eos=True, finish_reason="eos", usage=USED),
        ]
        pieces, _, growing = self.hear(model, start(model, n=2), heard)
        assert pieces[1] is error
        assert [piece.index for piece in (pieces[0], *pieces[2:])] == [0, 1, 1]
        assert pieces[-1].finish_reason == "eos"
        assert growing.all_ended
