import dataclasses
import enum
import json
import re

import pytest

from chat_templates import TEMPLATES, chat_template, chat_tokenizer
from onnxgen.errors import ChatTemplateError
from onnxgen.preprocess.chat_template import ChatTemplate
from onnxgen.preprocess.template_files import TemplateText

GLM = "{% for m in messages %}{% for c in m.tool_calls or [] %}{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }};{% endfor %}{% endfor %}{% endfor %}"
MISTRAL = "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}{% endfor %}"
DEEPSEEK = "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.name + '|' + c.function.arguments }}{% endfor %}{% endfor %}"
EITHER = (
    "{% for m in messages %}{% for c in m.tool_calls or [] %}{% set a = c.function.arguments %}"
    "{{ a if a is string else a | tojson }}{% endfor %}{% endfor %}"
)
PRINTS = "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments }}{% endfor %}{% endfor %}"


def render(text, messages, **options):
    return ChatTemplate({"default": TemplateText(text, "T")}).render(messages, **options)


def calling(arguments, **fields):
    call = {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": None, "tool_calls": [call]} | fields,
    ]


@pytest.mark.parametrize("arguments", ['{"city": "Paris"}', {"city": "Paris"}])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GLM, "city=Paris;"),
        (MISTRAL, '{"name": "f", "arguments": {"city": "Paris"}}'),
        (DEEPSEEK, 'f|{"city": "Paris"}'),
        (EITHER, '{"city": "Paris"}'),
        (PRINTS, '{"city": "Paris"}'),
    ],
)
def test_arguments_take_the_form_the_template_wants(text, expected, arguments):
    assert render(text, calling(arguments)) == expected


@pytest.mark.parametrize("arguments", ["", None, "{}", {}])
def test_no_arguments_are_an_empty_object(arguments):
    assert render(MISTRAL, calling(arguments)) == '{"name": "f", "arguments": {}}'
    assert render(DEEPSEEK, calling(arguments)) == "f|{}"


def test_text_arguments_keep_their_spelling():
    assert render(DEEPSEEK, calling('{"a":1,  "b":"é"}')) == 'f|{"a":1,  "b":"é"}'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ('{"city": ', "message 1: the arguments of the call of 'f' are not JSON"),
        ("[1]", "are an array, expected an object"),
        (3, "are a number, expected an object"),
    ],
)
@pytest.mark.parametrize("text", [GLM, DEEPSEEK])
def test_malformed_arguments_are_refused(text, arguments, message):
    with pytest.raises(ChatTemplateError, match=message):
        render(text, calling(arguments))


def test_calls_without_a_function_object():
    messages = [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": '{"a": 1}'}]}]
    assert (
        render("{{ messages[0].tool_calls[0] | tojson }}", messages) == '{"name": "f", "arguments": {"a": 1}}'
    )
    with pytest.raises(ChatTemplateError, match="a tool call is a str"):
        render("x", [{"role": "assistant", "tool_calls": ["f"]}])


@pytest.mark.parametrize("fields", [{}, {"content": ""}])
@pytest.mark.parametrize(
    "body",
    [
        "{{ m.content[:3] }}",
        "{{ 'a' + m.content }}",
        "{{ m.content | trim }}",
        "{{ m.content }}",
        "{{ m.content.strip() }}",
    ],
)
def test_calls_without_content_do_not_crash_templates(body, fields):
    text = "{% for m in messages if m.role == 'assistant' %}[" + body + "]{% endfor %}"
    assert render(text, calling({}, **fields)) in ("[]", "[a]")
    messages = calling({})
    del messages[1]["content"]
    assert render(text, messages) in ("[]", "[a]")


def test_templates_that_ask_for_none_get_it():
    text = "{% for m in messages %}{% if m.content is none %}only calls{% endif %}{% endfor %}"
    assert render(text, calling({})) == "only calls"


def test_nulls_of_absent_fields_are_dropped():
    message = {"role": "user", "content": None, "name": None, "tool_calls": None}
    text = "{{ messages[0] | tojson }}{{ 'name' in messages[0] }}"
    assert render(text, [message]) == '{"role": "user", "content": ""}False'


@pytest.mark.parametrize("key", ["reasoning_content", "thinking", "reasoning"])
def test_reasoning_goes_by_all_its_names(key):
    text = "{{ messages[0].reasoning_content }}{{ messages[0].thinking }}"
    assert render(text, [{"role": "assistant", "content": "x", key: "why"}]) == "whywhy"


class Role(enum.StrEnum):
    USER = "user"


@dataclasses.dataclass
class Message:
    role: str
    content: object


class Model:
    def __init__(self, **fields):
        self.fields = fields

    def model_dump(self):
        return self.fields


def test_messages_may_be_objects():
    messages = [Message(Role.USER, "a"), Model(role="user", content=("b",)), {"role": "user", "content": 3.5}]
    assert render("{{ messages | tojson }}", messages) == json.dumps(
        [
            {"role": "user", "content": "a"},
            {"role": "user", "content": ["b"]},
            {"role": "user", "content": 3.5},
        ]
    )


def test_templates_see_no_foreign_objects():
    class Image:
        def save(self):
            raise AssertionError("a template called a method")

    messages = [
        {"role": "user", "content": [{"type": "image", "image": Image()}, {"type": "text", "text": "x"}]}
    ]
    assert render("{{ messages[0].content[0].image }}", messages) == "<Image>"
    with pytest.raises(ChatTemplateError):
        render("{{ messages[0].content[0].image.save() }}", messages)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("hi", "message 0 is a string, expected a mapping"),
        (5, "message 0 is a number, expected a mapping"),
        ({"content": "x"}, "message 0 has no role"),
        ({"role": 1}, "no role"),
    ],
)
def test_what_is_no_message_is_refused(message, text):
    with pytest.raises(ChatTemplateError, match=text):
        render("x", [message])


@pytest.mark.parametrize("messages", ["hi", {"role": "user", "content": "x"}, None, 5, b"x"])
def test_messages_must_be_a_list(messages):
    with pytest.raises(ChatTemplateError, match="must be a list of mappings such as"):
        render("x", messages)


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        (5, "tools must be a list of mappings, got 5"),
        ("weather", "tools must be a list of mappings, got 'weather'"),
        ({"name": "f"}, "tools must be a list"),
        ([{"name": "f"}, "g"], "tool 1 is .*, expected a mapping"),
        ([print], "tool 0 is"),
    ],
)
def test_tools_must_be_a_list_of_mappings(tools, message):
    with pytest.raises(ChatTemplateError, match=message):
        render("{{ tools }}", [{"role": "user", "content": "x"}], tools=tools)


PARTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


@pytest.mark.parametrize("text", ["{{ '[' + m.content + ']' }}", "[{{ m.content }}]"])
def test_parts_are_joined_for_templates_that_know_none(text):
    text = "{% for m in messages %}" + text + "{% endfor %}"
    assert render(text, [{"role": "user", "content": PARTS}]) == "[ab]"
    assert render(text, [{"role": "user", "content": ["a", "b"]}]) == "[ab]"
    with pytest.raises(ChatTemplateError, match=r"message 0: .* no text \(image_url\)"):
        render(text, [{"role": "user", "content": [*PARTS, {"type": "image_url", "image_url": "x"}]}])


def test_parts_are_joined_for_templates_that_would_leave_them_out():
    text = "{% for m in messages %}[{{ m.content if m.content is string else '' }}]{% endfor %}"
    assert render(text, [{"role": "user", "content": PARTS}]) == "[ab]"
    shown = chat_template(TEMPLATES["qwen"]).render([{"role": "user", "content": PARTS}])
    assert shown.startswith("<|im_start|>user\nab<|im_end|>")


def test_parts_stay_for_templates_that_know_them():
    text = "{% for m in messages %}{% for p in m.content %}<{{ p.text }}>{% endfor %}{% endfor %}"
    assert render(text, [{"role": "user", "content": PARTS}]) == "<a><b>"


PARTS_ONLY = "{% for m in messages %}[{% for p in m.content if p.type == 'text' %}{{ p.text }}{% endfor %}]{% endfor %}"


def test_text_becomes_a_part_for_templates_that_know_only_parts():
    assert render(PARTS_ONLY, [{"role": "user", "content": "hi"}]) == "[hi]"
    assert render(PARTS_ONLY, [{"role": "user", "content": PARTS}]) == "[ab]"
    strict = "{% for m in messages %}{{ m.content[0]['text'] + '' }}{% endfor %}"
    assert render(strict, [{"role": "user", "content": "hi"}]) == "hi"


def ids_of_calls(template, ids):
    call = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [{"role": "user", "content": "q"}]
    for i in ids:
        messages.append(
            {"role": "assistant", "content": None, "tool_calls": [call if i is None else call | {"id": i}]}
        )
        messages.append({"role": "tool", "content": "r", "tool_call_id": i})
    text = chat_template(template).render(messages)
    return re.findall(r'"id": "(.*?)"', text), re.findall(r'"call_id": "(.*?)"', text)


def test_ids_of_calls_get_nine_characters_where_a_template_counts_them():
    called, answered = ids_of_calls(
        TEMPLATES["mistral"], ["a1b2c3d4e", "call_0123456789", "functions.f:0", "x", "call_0123456789"]
    )
    assert called == answered
    assert called[0] == "a1b2c3d4e" and called[1] == called[4]
    assert len(set(called)) == 4
    assert all(len(i) == 9 and i.isalnum() and i.isascii() for i in called)
    called, _ = ids_of_calls(TEMPLATES["mistral"], [None, None])
    assert len(set(called)) == 2 and all(len(i) == 9 and i.isalnum() for i in called)


def test_ids_of_calls_are_kept_elsewhere():
    text = (
        '{% for m in messages %}{% for c in m.tool_calls or [] %}"id": "{{ c.id }}"{% endfor %}{% endfor %}'
    )
    called, _ = ids_of_calls(text, ["functions.f:0", "x"])
    assert called == ["functions.f:0", "x"]


SYSTEM = {"role": "system", "content": "Be brief."}
HI = {"role": "user", "content": "Hi"}


def test_a_system_message_needs_a_role_or_to_be_folded():
    gemma = chat_template(TEMPLATES["gemma"])
    for template in (
        gemma,
        chat_template("{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}"),
    ):
        with pytest.raises(ChatTemplateError, match="no system role; with fold_system=True"):
            template.render([SYSTEM, HI])
    expected = "<s><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\n"
    assert gemma.render([SYSTEM, HI], fold_system=True) == expected
    assert gemma.render([HI], fold_system=True) == gemma.render([HI])


def test_a_system_message_stays_where_there_is_a_role():
    for name in ("qwen", "phi", "glm", "deepseek", "granite"):
        template = chat_template(TEMPLATES[name])
        assert template.render([SYSTEM, HI], fold_system=True) == template.render([SYSTEM, HI])


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([SYSTEM, {"role": "user", "content": PARTS}], "[Be brief.\n\nab]"),
        ([SYSTEM, SYSTEM, HI], "[Be brief.\n\nBe brief.\n\nHi]"),
        ([{"role": "system", "content": PARTS}, HI], "[ab\n\nHi]"),
        ([HI, {"role": "assistant", "content": "Ho"}, SYSTEM, HI], "[Hi][Ho][Be brief.\n\nHi]"),
        ([SYSTEM], "[Be brief.]"),
        ([SYSTEM, {"role": "user", "content": ""}], "[Be brief.]"),
    ],
)
def test_how_system_messages_are_folded(messages, expected):
    text = "{% for m in messages if m.role != 'system' %}[{{ m.content if m.content is string else m.content | map(attribute='text') | join }}]{% endfor %}"
    assert render(text, messages, fold_system=True) == expected


HEADERLESS = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


def test_a_template_without_a_generation_prompt_gets_the_header_it_writes(tmp_path):
    tokenizer = chat_tokenizer(tmp_path)
    prompt = chat_template(HEADERLESS).prompt(tokenizer, [HI])
    assert prompt.text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert prompt.token_ids == tokenizer.encode(prompt.text)
    without = chat_template(HEADERLESS).prompt(tokenizer, [HI], add_generation_prompt=False)
    assert without.text == chat_template(HEADERLESS).render([HI]) == "<|im_start|>user\nHi<|im_end|>\n"
    final = [HI, {"role": "assistant", "content": "Ho"}]
    assert chat_template(HEADERLESS).prompt(tokenizer, final, continue_final_message=True).text.endswith("Ho")


def test_a_blank_or_nothing_in_front_of_answers_is_no_header(tmp_path):
    tokenizer = chat_tokenizer(tmp_path)
    for text in (
        TEMPLATES["mistral"],
        "{% for m in messages %}{{ m.content }}\n{% endfor %}",
        "{{ messages[-1].content }}",
        "x",
    ):
        template = chat_template(text)
        assert template.prompt(tokenizer, [HI]).text == template.render([HI])


def test_a_template_that_always_begins_an_answer(tmp_path):
    text = "{% for m in messages %}{{ m.content }}\n{% if m.role == 'user' %}### Response:\n{% endif %}{% endfor %}"
    assert chat_template(text).prompt(chat_tokenizer(tmp_path), [HI]).text == "Hi\n### Response:\n"
    assert (
        render(text, [HI, {"role": "assistant", "content": "Ho"}], continue_final_message=True)
        == "Hi\n### Response:\nHo"
    )


def test_content_that_a_template_does_not_take_is_named():
    text = "{% for m in messages %}{{ m.role + ': ' + m.content }}{% endfor %}"
    messages = [{"role": "user", "content": "q"}, {"role": "tool", "content": {"a": 1}}]
    with pytest.raises(ChatTemplateError, match=r"message 1 \(tool\): its content is an object.*as JSON"):
        render(text, messages)
    with pytest.raises(ChatTemplateError, match=r"message 0 \(user\): its content is a number"):
        render(text, [{"role": "user", "content": 3}])
    assert render("{{ messages[1].content.a }}", messages) == "1"


def test_errors_of_templates_stay_their_own_where_content_is_usual():
    with pytest.raises(ChatTemplateError, match="No") as raised:
        render("{{ raise_exception('No') }}", [{"role": "user", "content": "q"}])
    assert "its content" not in str(raised.value)
