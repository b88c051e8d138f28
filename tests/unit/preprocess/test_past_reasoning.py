from chat_templates import TEMPLATES, chat_template
from onnxgen.preprocess.past_reasoning import drops_reasoning, without_reasoning
from onnxgen.preprocess.reasoning_markers import ReasoningMarkers

THINK = ReasoningMarkers("<think>", "</think>")


def test_templates_that_drop_reasoning_are_known():
    assert drops_reasoning(chat_template(TEMPLATES["qwen"]), THINK)
    assert drops_reasoning(chat_template(TEMPLATES["deepseek"]), THINK)
    assert not drops_reasoning(chat_template(TEMPLATES["phi"]), THINK)
    assert not drops_reasoning(chat_template("{{ raise_exception('no') }}"), THINK)


def test_reasoning_goes_from_answers_before_the_last_question():
    messages = [
        {"role": "user", "content": "<think>mine</think>"},
        {"role": "assistant", "content": "<think>\na\n</think>\n\nb", "name": "n"},
        {"role": "assistant", "content": "opened by the prompt</think>c"},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "assistant", "content": "plain\n"},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "<think>kept</think>d"},
    ]
    expected = [m.get("content") for m in messages]
    expected[1:3] = "b", "c"
    result = without_reasoning(messages, THINK)
    assert [m.get("content") for m in result] == expected
    assert result[1]["name"] == "n" and messages[1]["content"].startswith("<think>")
