import pytest

from answer_grammars import Writer
from onnxgen.errors import GrammarError, OptionError
from onnxgen.preprocess.answer_grammar import GrammarText, HarmonyRule, ReasoningRule, answer_grammar
from onnxgen.preprocess.reasoning_markers import PromptState, ReasoningMarkers
from onnxgen.preprocess.tool_calls.bound import bind
from onnxgen.preprocess.tool_calls.formats import FORMATS
from onnxgen.preprocess.tool_calls.grammar import ToolRule
from onnxgen.preprocess.tool_calls.tools import read_tools

TOOLS = read_tools(
    [
        {
            "name": "f",
            "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        },
        {"name": "web-browsing"},
    ]
)
SCHEMA = GrammarText(
    "json_schema", '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
)
OPEN, CLOSED, UNSAID = PromptState.OPEN, PromptState.CLOSED, PromptState.UNSAID
CONTROLS = ["<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"]


@pytest.fixture(scope="module", params=["spelled", "plain", "special"])
def thinker(request, tmp_path_factory):
    """A vocabulary, and how its model marks reasoning: by text, by a token that is text, by a control token."""
    texts = ["<think>", "</think>"]
    given = {"spelled": {}, "plain": {"plain": texts}, "special": {"special": texts}}[request.param]
    writer = Writer(tmp_path_factory.mktemp("thinker"), **given)
    return writer, ReasoningMarkers("<think>", "</think>", *map(writer.tokenizer.token_to_id, texts))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return Writer(tmp_path_factory.mktemp("plain"), plain=["<h1>", "</h1>"])


@pytest.fixture(scope="module", params=["spelled", "tokens"])
def harmony(request, tmp_path_factory):
    special = CONTROLS if request.param == "tokens" else ()
    return Writer(tmp_path_factory.mktemp("harmony"), special=special)


def test_an_answer_that_is_free_has_no_grammar(plain):
    rule = ReasoningRule(ReasoningMarkers("<think>", "</think>"), OPEN)
    assert answer_grammar(plain.tokenizer) is None
    assert answer_grammar(plain.tokenizer, reasoning=rule) is None
    assert answer_grammar(plain.tokenizer, content=SCHEMA) is SCHEMA


@pytest.mark.parametrize(
    ("state", "taken", "refused"),
    [
        (OPEN, ['why {"n": 1}</think>{"n": 1}', '</think>\n\n{"n": 1}', 'a</think>\n<think>b</think>{"n": 2}'],
         ['{"n": 1}', 'why</think>', 'why</think>no', 'why</think>{"n": "1"}']),
        (CLOSED, ['{"n": 1}', '\n\n{"n": 1}'], ['<think>why</think>{"n": 1}', "", "no"]),
        (UNSAID, ['{"n": 1}', '<think>why</think>\n\n{"n": 1}', '\n<think>\nwhy <h1>\n</think>{"n": 1}'],
         ["<think>why</think>", 'why</think>{"n": 1}', "no"]),
    ],
)  # fmt: skip
def test_content_is_constrained_once_reasoning_is_over(thinker, state, taken, refused):
    writer, markers = thinker
    grammar = answer_grammar(writer.tokenizer, content=SCHEMA, reasoning=ReasoningRule(markers, state))
    for text in taken:
        assert writer.taken(grammar, text) == (text, True)
    for text in refused:
        assert not writer.takes(grammar, text), text


CONTENTS = [
    (GrammarText("json_object"), '{"a": [1]}', "[1]"),
    (SCHEMA, '{"n": 3}', '{"n": null}'),
    (GrammarText("json_schema", "true"), "[1]", "no"),
    (GrammarText("regex", "[0-9]/[a-z\n]+|\\/x"), "1/ab\nc", "a/1"),
    (GrammarText("choice", '["yes", "a \\"b\\" \\\\c\\n/"]'), 'a "b" \\c\n/', "a"),
    (GrammarText("lark", 'start: "x" list\nlist: "(" list* ")"\n%ignore / +/'), "x( ()())", "x(()"),
    (GrammarText("llguidance", 'start: "x" /[0-9]+/'), "x12", "x"),
    (
        GrammarText(
            "llguidance",
            '{"grammars": [{"lark_grammar": "start: \\"<\\" @inner \\">\\""}, {"name": "inner", "json_schema": {"type": "null"}}]}',
        ),
        "<null>",
        "<1>",
    ),
]


@pytest.mark.parametrize(("content", "right", "wrong"), CONTENTS)
def test_every_kind_of_content_can_follow_reasoning(thinker, content, right, wrong):
    writer, markers = thinker
    grammar = answer_grammar(writer.tokenizer, content=content, reasoning=ReasoningRule(markers, OPEN))
    assert writer.taken(grammar, f"why</think>\n\n{right}") == (f"why</think>\n\n{right}", True)
    assert not writer.takes(grammar, f"why</think>{wrong}")
    assert not writer.takes(grammar, right)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (GrammarText("json_schema", "{"), "no JSON"),
        (GrammarText("json_schema", "3"), "of another kind"),
        (GrammarText("choice", "{}"), "of another kind"),
        (GrammarText("llguidance", '{"grammars": []}'), "list of grammars"),
        (GrammarText("llguidance", '{"grammars": [1]}'), "list of grammars"),
    ],
)
def test_content_that_is_no_grammar_is_refused(plain, content, match):
    rule = ReasoningRule(ReasoningMarkers("<think>", "</think>"), OPEN)
    with pytest.raises(OptionError, match=match):
        answer_grammar(plain.tokenizer, content=content, reasoning=rule)


def test_parts_of_content_that_are_wrong_are_named(plain):
    rule = ReasoningRule(ReasoningMarkers("<think>", "</think>"), OPEN)
    content = GrammarText("json_schema", '{"properties": {"a": {"uniqueItems": true}}}')
    grammar = answer_grammar(plain.tokenizer, content=content, reasoning=rule)
    with pytest.raises(GrammarError, match="uniqueItems"):
        plain.state(grammar)


def test_tools_and_content_leave_a_choice(thinker):
    writer, markers = thinker
    bound = bind(FORMATS["hermes"], writer.tokenizer)
    reasoning = ReasoningRule(markers, UNSAID)
    call = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'

    def grammar(**rule):
        return answer_grammar(
            writer.tokenizer, content=SCHEMA, tools=ToolRule(bound, TOOLS, **rule), reasoning=reasoning
        )

    for thought in ("", "<think>so</think>\n\n"):
        assert writer.takes(grammar(), f'{thought}{{"n": 1}}') and writer.takes(grammar(), thought + call)
        assert not writer.takes(grammar(), f"{thought}text") and not writer.takes(
            grammar(), f"{thought}text {call}"
        )
        assert not writer.takes(grammar(choice="required"), f'{thought}{{"n": 1}}')
        assert writer.takes(grammar(choice="required"), f"{thought}{call}\n{call}")
        assert not writer.takes(grammar(parallel=False), f"{thought}{call}\n{call}")


def test_a_call_inside_of_reasoning_is_no_call(thinker):
    writer, markers = thinker
    bound = bind(FORMATS["hermes"], None)
    grammar = answer_grammar(
        writer.tokenizer, tools=ToolRule(bound, TOOLS), reasoning=ReasoningRule(markers, OPEN)
    )
    assert writer.takes(grammar, "I could <tool_call>\nwhatever</think>\n\nHello <b>")
    assert not writer.takes(grammar, "why</think>\n\n<tool_call>\nwhatever")


def test_names_that_are_text_may_be_written(plain):
    bound = bind(FORMATS["hermes"], plain.tokenizer)
    grammar = answer_grammar(plain.tokenizer, tools=ToolRule(bound, TOOLS))
    for text in ("<h1>a</h1>", "a <h1></h1>b", "<h1><tool_", "</h1>"):
        assert plain.takes(grammar, text)
    call = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    assert plain.takes(grammar, f"<h1>{call}</h1>{call}<h1>")
    assert not plain.takes(grammar, "<h1>a<tool_call>b</h1>")


ASSISTANT = "<|start|>assistant"
THOUGHT = f"<|channel|>analysis<|message|>why {{<|end|>{ASSISTANT}"
CALL = '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}'
OTHER = "<|channel|>commentary to=functions.web-browsing <|constrain|>json<|message|>{}"
IN_ROLE = ' to=functions.f<|channel|>commentary <|constrain|>json<|message|>{"a": 1}'
FINAL = "<|channel|>final<|message|>"


def of_harmony(writer, *, prompt=f"x{ASSISTANT}", content=None, **rule):
    tools = ToolRule(bind(FORMATS["harmony"], writer.tokenizer), TOOLS, **rule) if rule else None
    return answer_grammar(writer.tokenizer, content=content, tools=tools, reasoning=HarmonyRule(prompt))


def test_harmony_messages_may_call(harmony):
    auto = of_harmony(harmony, choice="auto")
    for before in (
        "",
        THOUGHT,
        THOUGHT * 2,
        f"{THOUGHT}<|channel|>commentary<|message|>I look.<|end|>{ASSISTANT}",
    ):
        for rest in (
            CALL,
            f"{CALL}<|call|>",
            OTHER,
            IN_ROLE,
            f"{FINAL}Hello {{",
            f"{CALL}<|call|>{ASSISTANT}{OTHER}",
        ):
            assert harmony.taken(auto, before + rest) == (before + rest, True)
    for wrong in (
        "",
        "Hello",
        THOUGHT,
        CALL.replace(".f", ".g"),
        CALL.replace("1", '"1"'),
        CALL.replace("}", ""),
    ):
        assert not harmony.takes(auto, wrong), wrong


def test_harmony_calls_can_be_required(harmony):
    required = of_harmony(harmony, choice="required")
    assert harmony.takes(required, THOUGHT + CALL) and harmony.takes(
        required, f"{CALL}<|call|>{ASSISTANT}{OTHER}"
    )
    assert not harmony.takes(required, f"{FINAL}Hello")
    named = of_harmony(harmony, name="web-browsing")
    assert harmony.takes(named, THOUGHT + OTHER) and not harmony.takes(named, CALL)
    single = of_harmony(harmony, choice="auto", parallel=False)
    assert harmony.takes(single, CALL) and harmony.takes(single, f"{FINAL}Hello")
    assert not harmony.takes(single, f"{CALL}<|call|>{ASSISTANT}{OTHER}")


def test_the_final_message_of_harmony_can_be_constrained(harmony):
    grammar = of_harmony(harmony, content=SCHEMA)
    for before in ("", THOUGHT):
        assert harmony.takes(grammar, f'{before}{FINAL}{{"n": 1}}') and not harmony.takes(
            grammar, f"{before}{FINAL}no"
        )
    both = of_harmony(harmony, content=SCHEMA, choice="auto")
    assert harmony.takes(both, f'{FINAL}{{"n": 1}}') and harmony.takes(both, CALL)
    assert not harmony.takes(both, f"<|channel|>commentary<|message|>hm<|end|>{ASSISTANT}{CALL}")


def test_a_harmony_answer_goes_on_where_its_prompt_ends(harmony):
    grammar = of_harmony(harmony, content=SCHEMA, prompt=f"x{ASSISTANT}<|channel|>final<|message|>")
    assert harmony.takes(grammar, '{"n": 1}') and not harmony.takes(grammar, "no")
    grammar = of_harmony(harmony, content=SCHEMA, prompt=f"x{ASSISTANT}<|channel|>analysis<|message|>")
    assert harmony.takes(grammar, f'why<|end|>{ASSISTANT}{FINAL}{{"n": 1}}') and not harmony.takes(
        grammar, '{"n": 1}'
    )
