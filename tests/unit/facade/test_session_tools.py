"""`ChatSession` with tools: calls, their results, and what is left of them when something goes wrong."""

import pytest

from onnxgen.errors import BackendError, CapabilityError, OptionError, StateError
from onnxgen.facade.generation_options import GenerationOptions
from onnxgen.facade.prompt_options import PromptOptions
from tool_models import TOOLS, call_text, calling, result, tool_llm, user, write_tool_folder

TIME, WEATHER = call_text("time"), call_text("weather")
ONE = [user("hi"), calling("time")]
TWO = [user("hi"), calling("weather", "time")]


@pytest.fixture
def folder(tmp_path):
    return write_tool_folder(tmp_path / "model")


def open_session(folder, answers, *, prompt_options=None, tools=TOOLS, **options):
    llm = tool_llm(folder, answers, tools=tools, **options)
    return llm.session(tools=tools, prompt_options=prompt_options)


def answer(chunks):
    return list(chunks)[-1].completion


def roles(session):
    return [message["role"] for message in session.messages]


def test_results_of_a_call_are_answered(folder):
    session = open_session(
        folder, [([user("hi")], f"Let me see.\n{TIME}"), ([user("hi"), calling("time", text="Let me see."), result("noon")], "It is noon.")]
    )  # fmt: skip
    called = answer(session.send("hi"))
    assert (called.text, called.finish_reason) == ("Let me see.", "tool_calls")
    [call] = called.tool_calls
    assert session.messages[-1] == called.message
    assert answer(session.send_results(["noon"])).text == "It is noon."
    assert session.messages[2] == {"role": "tool", "tool_call_id": call.id, "name": "time", "content": "noon"}
    assert roles(session) == ["user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize("by_id", [False, True])
def test_results_are_given_by_id_or_in_order(folder, by_id):
    session = open_session(
        folder, [([user("hi")], f"{WEATHER}\n{TIME}"), ([*TWO, result('{"sky": "blau ☀"}'), result("noon")], "ok")]
    )  # fmt: skip
    weather, time = answer(session.send("hi")).tool_calls
    sky = {"sky": "blau ☀"}
    given = {time.id: "noon", weather.id: sky} if by_id else [sky, "noon"]
    assert answer(session.send_results(given)).text == "ok"
    assert [m["content"] for m in session.messages if m["role"] == "tool"] == ['{"sky": "blau ☀"}', "noon"]


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([], "0 results were given for 2 calls"),
        (["a", "b", "c"], "3 results were given for 2 calls"),
        ({}, "has none"),
        ({"x": "a"}, "has none"),
        ("noon", "must be a mapping or a list, got 'noon'"),
        (None, "must be a mapping or a list, got None"),
        (["a", object()], "must be a text or JSON data, got <object"),
        (["a", b"b"], "must be a text or JSON data, got b'b'"),
    ],
)
def test_wrong_results_are_refused_and_can_be_given_again(folder, results, message):
    session = open_session(
        folder, [([user("hi")], f"{WEATHER}\n{TIME}"), ([*TWO, result("a"), result("b")], "ok")]
    )
    answer(session.send("hi"))
    with pytest.raises(OptionError, match=message):
        session.send_results(results)
    assert len(session.messages) == 2
    assert answer(session.send_results(["a", "b"])).text == "ok"


def test_a_result_of_no_call_is_named(folder):
    session = open_session(folder, [([user("hi")], TIME)])
    [call] = answer(session.send("hi")).tool_calls
    with pytest.raises(OptionError, match="'other' is none of them"):
        session.send_results({call.id: "noon", "other": "x"})


def test_results_need_a_call(folder):
    session = open_session(folder, [([user("hi")], "hello")])
    with pytest.raises(StateError, match="called no tool"):
        session.send_results(["x"])
    answer(session.send("hi"))
    with pytest.raises(StateError, match="called no tool"):
        session.send_results(["x"])
    session.close()
    with pytest.raises(StateError, match="closed"):
        session.send_results(["x"])


def test_calls_may_follow_calls(folder):
    session = open_session(
        folder,
        [
            ([user("hi")], TIME),
            ([*ONE, result("noon")], WEATHER),
            ([*ONE, result("noon"), calling("weather"), result("sun")], "ok"),
        ],
    )
    answer(session.send("hi"))
    answer(session.send_results(["noon"]))
    assert answer(session.send_results(["sun"])).text == "ok"
    assert len(session.messages) == 6
    session.rewind()
    assert session.messages == []


def test_what_is_chosen_of_tools_may_change_with_every_message(folder):
    named = {"type": "function", "function": {"name": "time"}}
    session = open_session(
        folder,
        [([user("hi")], "hello"), ([user("hi"), {"role": "assistant", "content": "x"}, user("b")], TIME)],
        prompt_options=PromptOptions(tool_choice="none"),
    )
    assert answer(session.send("hi")).text == "hello"
    session.reset()
    for choice, names in (("required", {"time", "weather"}), (named, {"time"})):
        done = answer(session.send("hi", tool_choice=choice, options=GenerationOptions(max_new_tokens=400)))
        assert {call.name for call in done.tool_calls} <= names
        assert done.text == "" or done.finish_reason == "length"
        session.rewind()
    assert answer(session.send("hi")).text == "hello"
    with pytest.raises(OptionError, match="tool_choice must be"):
        session.send("hi", tool_choice="maybe")
    with pytest.raises(OptionError, match="tool_choice names 'tim'"):
        session.send("hi", tool_choice={"type": "function", "name": "tim"})
    assert len(session.messages) == 2


def test_a_choice_without_tools_is_refused(folder):
    session = open_session(folder, [([user("hi")], "hello")], tools=None)
    with pytest.raises(OptionError, match="no tools were given"):
        session.send("hi", tool_choice="required")
    assert answer(session.send("hi", tool_choice="none")).text == "hello"


def test_turns_with_calls_are_taken_back_as_a_whole(folder):
    before = [user("a"), {"role": "assistant", "content": "b"}]
    session = open_session(
        folder,
        [
            ([user("a")], "b"),
            ([*before, user("hi")], TIME),
            ([*before, *ONE, result("noon")], "ok"),
        ],
    )
    answer(session.send("a"))
    for _ in range(2):
        answer(session.send("hi"))
        assert answer(session.send_results(["noon"])).text == "ok"
        session.rewind()
        assert session.messages == before
    answer(session.send("hi"))
    session.rewind()
    assert session.messages == before
    with pytest.raises(StateError, match="called no tool"):
        session.send_results(["noon"])


def test_forks_get_results_of_their_own(folder):
    session = open_session(
        folder,
        [([user("hi")], TIME), ([*ONE, result("noon")], "lunch"), ([*ONE, result("dawn")], "coffee")],
    )
    answer(session.send("hi"))
    other = session.fork()
    assert answer(other.send_results(["dawn"])).text == "coffee"
    assert len(session.messages) == 2
    assert answer(session.send_results(["noon"])).text == "lunch"
    assert [m["content"] for m in other.messages if m["role"] == "tool"] == ["dawn"]


def test_nothing_that_is_given_out_changes_the_conversation(folder):
    session = open_session(folder, [([user("hi")], TIME), ([*ONE, result("noon")], "ok")])
    called = answer(session.send("hi"))
    other = session.fork()
    for messages in (session.messages, other.messages):
        messages[-1]["tool_calls"][0]["function"]["name"] = "else"
        messages[-1]["tool_calls"].clear()
    assert session.messages[-1] == other.messages[-1] == called.message
    assert answer(session.send_results(["noon"])).text == "ok"


def stopped_after(stream, num_chars):
    """Take pieces until so much of the text came, and end the answer."""
    text = ""
    for chunk in stream:
        text += chunk.text
        if len(text) >= num_chars:
            break
    stream.close()


def test_an_answer_closed_in_the_middle_of_a_call_keeps_what_was_said(folder):
    session = open_session(folder, [([user("hi")], f"Well. {TIME}")])
    stream = session.send("hi")
    stopped_after(stream, len("Well."))
    assert session.messages == [user("hi"), {"role": "assistant", "content": "Well."}]
    with pytest.raises(StateError, match="called no tool"):
        session.send_results(["noon"])


def test_an_answer_closed_in_a_call_before_anything_was_said_leaves_no_trace(folder):
    session = open_session(folder, [([user("hi")], TIME)])
    for closes in (lambda stream: stream.close(), lambda stream: session.reset()):
        stream = session.send("hi")
        session.messages.clear()
        closes(stream)
        assert session.messages == []


def test_a_call_that_was_whole_before_the_answer_was_closed_stays(folder):
    session = open_session(folder, [([user("hi")], f"{TIME}\n{WEATHER}"), ([*ONE, result("noon")], "ok")])
    stream = session.send("hi")
    chunk = next(chunk for chunk in stream if chunk.tool_calls)
    stream.close()
    assert chunk.finish_reason is None
    assert [call["id"] for call in session.messages[-1]["tool_calls"]] == [chunk.tool_calls[0].id]
    assert answer(session.send_results(["noon"])).text == "ok"


def test_results_whose_answer_was_closed_stay_with_what_came_of_it(folder):
    script = [([user("hi")], TIME), ([*ONE, result("noon")], "lunch time")]
    session = open_session(folder, script)
    answer(session.send("hi"))
    session.send_results(["noon"]).close()
    assert len(session.messages) == 2
    stopped_after(session.send_results(["noon"]), 2)
    assert session.messages[2:] == [
        {**session.messages[2], "content": "noon"},
        {"role": "assistant", "content": "lu"},
    ]
    session.rewind()
    assert session.messages == []


def test_a_failing_step_leaves_calls_that_can_be_answered_again(folder):
    session = open_session(folder, [([user("hi")], TIME), ([*ONE, result("noon")], "ok")])
    answer(session.send("hi"))
    backend = session._model.model.backend
    execute = backend.execute

    def fail(step, cache):
        raise BackendError("no luck")

    backend.execute = fail
    with pytest.raises(BackendError, match="no luck"):
        list(session.send_results(["noon"]))
    assert len(session.messages) == 2
    backend.execute = execute
    assert answer(session.send_results(["noon"])).text == "ok"


def test_a_cut_call_is_text_of_the_conversation(folder):
    session = open_session(folder, [([user("hi")], TIME)])
    cut = answer(session.send("hi", options=GenerationOptions(max_new_tokens=20, stop="never")))
    assert (cut.finish_reason, cut.tool_calls) == ("length", ())
    assert TIME.startswith(cut.text) and cut.text
    assert session.messages[-1] == {"role": "assistant", "content": cut.text}


def test_tools_that_cannot_be_offered_are_refused_before_anything_is_said(folder):
    llm = tool_llm(folder, [])
    with pytest.raises(OptionError, match="tools"):
        llm.session(tools=[{"type": "function"}]).send("hi")
    plain = write_tool_folder(
        folder.parent / "plain", template="{% for m in messages %}{{ m.content }}{% endfor %}"
    )
    session = tool_llm(plain, []).session(tools=TOOLS)
    with pytest.raises(CapabilityError, match="no place for them"):
        session.send("hi")
    assert session.messages == []
