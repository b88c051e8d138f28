"""What a request means to a conversation that the server keeps."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from onnxgen.server.sessions.joining import joined


def user(text):
    return {"role": "user", "content": text}


def answer(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


KEPT = [user("one"), answer("1"), user("two"), answer("2")]


def test_a_new_message_goes_on():
    assert joined(KEPT, [user("three")]) == [*KEPT, user("three")]


def test_the_same_words_again_go_on():
    assert joined(KEPT, [user("one")]) == [*KEPT, user("one")]


def test_a_conversation_that_is_sent_whole_stands_in_its_place():
    whole = [*KEPT, user("three")]
    assert joined(KEPT, whole) == whole


def test_an_edited_turn_drops_what_came_after_it():
    edited = [user("one"), answer("1"), user("2 or 3?")]
    assert joined(KEPT, edited) == edited


def test_a_stopped_answer_of_which_the_client_saw_less_is_still_the_same_conversation():
    kept = [user("one"), answer("a long ans")]
    sent = [user("one"), answer("a lo"), user("go on")]
    assert joined(kept, sent) == sent


def test_examples_of_another_conversation_are_no_replacement():
    sent = [user("other"), answer("x"), user("three")]
    assert joined(KEPT, sent) == [*KEPT, *sent]


def test_an_answer_to_continue_goes_on():
    assert joined(KEPT, [answer("And")]) == [*KEPT, answer("And")]


def test_new_instructions_replace_the_old_ones_at_the_beginning():
    kept = [system("be brief"), *KEPT]
    assert joined(kept, [system("be long"), user("three")]) == [system("be long"), *KEPT, user("three")]
    assert joined(kept, [user("three")]) == [*kept, user("three")]
    assert joined(KEPT, [system("be long"), user("three")]) == [system("be long"), *KEPT, user("three")]


def test_reasoning_that_is_not_sent_back_and_empty_fields_make_no_difference():
    calls = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    kept = [user("one"), answer("", reasoning_content="hm", tool_calls=calls)]
    sent = [
        {"role": "user", "content": [{"type": "text", "text": "on"}, {"type": "text", "text": "e"}]},
        {"role": "assistant", "content": None, "tool_calls": calls, "refusal": None},
        {"role": "tool", "content": "42", "tool_call_id": "c1"},
    ]
    assert joined(kept, sent) == sent


def test_a_result_alone_goes_on_after_its_call():
    calls = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    kept = [user("one"), answer("", tool_calls=calls)]
    result = {"role": "tool", "content": "42", "tool_call_id": "c1"}
    assert joined(kept, [result]) == [*kept, result]


def test_other_parts_than_text_are_compared_whole():
    def shown(url):
        return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}

    kept = [shown("data:,a"), answer("an a")]
    assert joined(kept, [shown("data:,a"), answer("an a"), user("and?")])[2:] == [user("and?")]
    assert len(joined(kept, [shown("data:,b"), answer("an a"), user("and?")])) == 5


texts = st.text(max_size=3)
turn = st.tuples(texts, texts).map(lambda pair: [user(pair[0]), answer(pair[1])])
conversations = st.lists(turn, max_size=4).map(lambda turns: [m for t in turns for m in t])


@given(conversations, texts)
def test_clients_that_send_all_and_clients_that_send_the_news_mean_the_same(kept, text):
    before = copy.deepcopy(kept)
    assert joined(kept, [user(text)]) == joined(kept, [*kept, user(text)]) == [*kept, user(text)]
    assert kept == before


@given(
    conversations, st.lists(st.sampled_from([user("a"), answer("b"), system("c")]), min_size=1, max_size=5)
)
def test_what_is_sent_is_never_lost(kept, sent):
    found = joined(kept, sent)
    turns = next((i for i, m in enumerate(sent) if m["role"] != "system"), len(sent))
    assert found[: turns or None] == sent[: turns or None] or not turns
    assert not sent[turns:] or found[-len(sent[turns:]) :] == sent[turns:]
