"""`ChatForm`, `answer_rules` and `Reading`: what a template shows and what is asked for, together."""

import json
import math

import pytest

from chat_templates import chat_template, chat_tokenizer
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.errors import CapabilityError, ChatTemplateError, OptionError
from onnxgen.facade.answer_rules import answer_rules
from onnxgen.facade.chat_form import ChatForm
from onnxgen.facade.generation_options import GenerationOptions
from onnxgen.facade.prompt_options import PromptOptions
from onnxgen.facade.sampling_of import sampling_for
from onnxgen.metadata.model_spec import SearchDefaults
from onnxgen.preprocess.answer_grammar import HarmonyRule
from onnxgen.preprocess.answer_reader import MarkedReader
from onnxgen.preprocess.detokenizer import IncrementalDetokenizer
from onnxgen.preprocess.harmony import HarmonyParser
from onnxgen.preprocess.reasoning_markers import PromptState
from onnxgen.preprocess.tool_calls.tools import read_tools

TURNS = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
ANSWER = "{% if add_generation_prompt %}[assistant]{% if think %}<think>{% endif %}{% endif %}"
CALLS = (
    "{% for m in messages %}{% for c in m.tool_calls or [] %}<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>'
    "{% endfor %}{% endfor %}"
)
PLAIN = TURNS + ANSWER
TOLD = "{{ tools | tojson if tools }}" + TURNS + CALLS + ANSWER
MUTE = "{{ tools | tojson if tools }}" + TURNS + ANSWER
HARMONY = TOLD.replace("[assistant]", "<|start|>assistant") + "{# <|channel|>analysis<|message|> <|call|> #}"
HARMONY = HARMONY.replace(CALLS, "")

TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "time", "parameters": {"type": "object"}}},
]
MARKS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
CHANNELS = ["<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"]
QUESTION = [{"role": "user", "content": "q"}]
NAMED = {"type": "function", "function": {"name": "time"}}


@pytest.fixture
def form(tmp_path):
    def make(text, *, special=MARKS, plain=()):
        return ChatForm(
            chat_template(text), chat_tokenizer(tmp_path, special=list(special), plain=list(plain))
        )

    return make


def asked(form, *, tools=TOOLS, options=None, **changes):
    """The prompt, the rules and the reading of a question, as `ModelText.chat_question` makes them."""
    prompt_options, definitions = PromptOptions(**changes), read_tools(tools)
    bound = form.tool_format(prompt_options.tool_call_format) if definitions else None
    prompt = form.prompt(QUESTION, prompt_options, tools=tools, definitions=definitions)
    rules = answer_rules(
        form._tokenizer,
        options or GenerationOptions(),
        prompt_options,
        reasoning=form.reasoning(prompt),
        tools=definitions,
        bound=bound,
    )
    return prompt, rules, form.reading(prompt, prompt_options, rules.tool_use)


def read(form, reading, text, *, complete=True):
    """What a reading makes of the tokens of a text."""
    tokenizer, reader = form._tokenizer, reading.new_reader()
    detokenizer = IncrementalDetokenizer(tokenizer, shown_ids=reading.shown_ids)
    parts = [reader.push(detokenizer.push(token), token) for token in tokenizer.encode(text)]
    parts += [reader.push(detokenizer.flush()), reader.flush(complete=complete)]
    calls = [call.name for part in parts for call in part.calls]
    return "".join(p.reasoning for p in parts), "".join(p.content for p in parts), calls


CALL = '<tool_call>\n{"name": "time", "arguments": {}}\n</tool_call>'


class TestToolChoice:
    """Of templates that show tools, that show none, and that do not show calls."""

    @pytest.mark.parametrize("choice", ["auto", "required", NAMED])
    @pytest.mark.parametrize(("text", "name"), [(TOLD, None), (PLAIN, "hermes"), (MUTE, "hermes")])
    def test_calls_are_asked_for_and_read(self, form, choice, text, name):
        form = form(text)
        prompt, rules, reading = asked(form, tool_choice=choice, tool_call_format=name)
        assert prompt.text.count('"weather"') == 1
        assert ("You may call tools." in prompt.text) == (text == PLAIN)
        assert rules.tool_use.format.name == "hermes"
        assert rules.grammar is not None and "time" in rules.grammar.source
        assert ("weather" in rules.grammar.source) == (choice != NAMED)
        assert rules.options == GenerationOptions()
        assert read(form, reading, f"a {CALL}") == ("", "a", ["time"])

    @pytest.mark.parametrize(("text", "name"), [(TOLD, None), (PLAIN, "hermes"), (MUTE, "hermes")])
    def test_none_keeps_calls_from_being_opened(self, form, text, name):
        form = form(text)
        prompt, rules, reading = asked(form, tool_choice="none", tool_call_format=name)
        assert '"weather"' in prompt.text
        assert rules.grammar is rules.tool_use is None
        assert rules.options.logit_bias == {form._tokenizer.token_to_id("<tool_call>"): -math.inf}
        assert read(form, reading, "a b") == ("", "a b", [])

    def test_none_bans_nothing_where_openings_are_spelled(self, form):
        options = GenerationOptions(logit_bias={5: 1.0})
        assert asked(form(TOLD, special=()), tool_choice="none", options=options)[1].options == options

    @pytest.mark.parametrize("mine", ["id", "text"])
    def test_the_users_bias_stays_and_none_goes_before_it(self, form, mine):
        form = form(TOLD)
        opening = form._tokenizer.token_to_id("<tool_call>")
        options = GenerationOptions(logit_bias={5: -1.5, opening if mine == "id" else "<tool_call>": 9.0})
        _, rules, _ = asked(form, tool_choice="none", options=options)
        sampling = sampling_for(rules.options, SearchDefaults(), prompt_tokens=1, tokenizer=form._tokenizer)
        assert dict(sampling.logit_bias) == {5: -1.5, opening: -math.inf}
        assert options.logit_bias[5] == -1.5 and len(options.logit_bias) == 2

    def test_calls_of_an_unknown_format_stay_text(self, form, caplog):
        form = form(MUTE, special=())
        for _ in range(2):
            _, rules, reading = asked(form)
            assert rules.grammar is rules.tool_use is None
            assert read(form, reading, CALL) == ("", CALL, [])
        assert caplog.text.count("does not show how tools are called; calls stay text") == 1

    @pytest.mark.parametrize(("choice", "named"), [("required", "'required'"), (NAMED, "'time'")])
    def test_nobody_can_be_held_to_an_unknown_format(self, form, choice, named):
        with pytest.raises(CapabilityError, match=f"tool_choice is {named}.*tool_call_format"):
            asked(form(MUTE, special=()), tool_choice=choice)

    @pytest.mark.parametrize("name", [None, "mistral-v3"])
    def test_tools_need_a_place(self, form, name):
        form = form(PLAIN)
        with pytest.raises(CapabilityError, match="no place for them; tool_call_format='hermes'"):
            asked(form, tool_call_format=name)
        prompt, rules, _ = asked(form, tools=())
        assert (prompt.text, rules.grammar, rules.tool_use) == ("[user]q[assistant]", None, None)

    def test_a_format_that_there_is_not_is_refused_with_a_hint(self, form):
        with pytest.raises(OptionError, match="no tool-call format 'hermess'; did you mean 'hermes'"):
            asked(form(TOLD), tool_call_format="hermess")

    def test_a_format_that_is_named_goes_before_the_templates(self, form):
        form = form(TOLD)
        _, rules, reading = asked(form, tool_call_format="llama-3-json")
        assert rules.tool_use.format.name == "llama-3-json"
        assert read(form, reading, '{"name": "time", "parameters": {}}') == ("", "", ["time"])

    def test_one_call_at_a_time_is_a_grammar_of_its_own(self, form):
        form = form(TOLD)
        one, many = (asked(form, parallel_tool_calls=p)[1].grammar.source for p in (False, True))
        assert one != many

    def test_ids_are_as_short_as_the_template_wants_them(self, form):
        short = "{% for m in messages %}{% for c in m.tool_calls or [] %}{% if c.id | length != 9 %}"
        short += (
            "{{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{% endif %}"
        )
        short += "{% endfor %}{% endfor %}"
        for text, is_short in ((short + TOLD, True), (TOLD, False)):
            reader = asked(form(text, special=()))[2].new_reader()
            [call] = reader.push(CALL).calls
            assert (len(call.id) == 9) == is_short


class TestReasoning:
    THINKS = TOLD + "{# <think></think> #}"

    @pytest.mark.parametrize("think", [False, True])
    @pytest.mark.parametrize("special", [MARKS, MARKS[2:], ()])
    def test_calls_come_after_reasoning(self, form, think, special):
        form = form(self.THINKS, special=special, plain=[m for m in MARKS if m not in special])
        _, rules, reading = asked(form, template_variables={"think": think})
        assert reading.reasoning.state is (PromptState.OPEN if think else PromptState.UNSAID)
        text = f"{'' if think else '<think>'}hm {CALL}</think>\n\nso {CALL}"
        assert read(form, reading, text) == (f"hm {CALL}", "so", ["time"])
        assert "time" in rules.grammar.source

    @pytest.mark.parametrize("special", [MARKS, ()])
    def test_reasoning_that_is_not_split_stays_with_its_marks(self, form, special):
        form = form(self.THINKS, special=special, plain=[m for m in MARKS if m not in special])
        for tools in ((), TOOLS):
            _, rules, reading = asked(form, tools=tools, split_reasoning=False)
            text = "<think>\nhm\n</think>\n\nso"
            assert read(form, reading, text) == ("", text, [])
            assert rules.grammar == asked(form, tools=tools)[1].grammar

    @pytest.mark.parametrize("split", [False, True])
    def test_what_an_answer_must_look_like_leaves_room_for_reasoning(self, form, split):
        form = form(self.THINKS)
        options = GenerationOptions(response_format={"type": "regex", "regex": "[0-9]+"})
        grammars = [
            asked(form, tools=tools, options=options, split_reasoning=split)[1].grammar
            for tools in ((), TOOLS)
        ]
        for grammar, has_tools in zip(grammars, (False, True), strict=True):
            assert grammar.kind == "lark"
            assert "[0-9]+" in grammar.source
            assert str(form.markers.closing_id) in grammar.source
            assert ("weather" in grammar.source) == has_tools

    def test_without_reasoning_and_tools_a_form_is_as_it_was_given(self, form):
        options = GenerationOptions(response_format={"type": "regex", "regex": "[0-9]+"})
        assert asked(form(PLAIN, special=()), tools=(), options=options)[1].grammar == Grammar.regex("[0-9]+")

    def test_a_form_and_none_ban_calls_too(self, form):
        form = form(TOLD, special=MARKS[2:])
        options = GenerationOptions(response_format="json_object")
        _, rules, _ = asked(form, options=options, tool_choice="none")
        assert rules.grammar == Grammar.json_object()
        assert -math.inf in rules.options.logit_bias.values()

    @pytest.mark.parametrize("fast_forward", [False, True])
    def test_whether_forced_tokens_are_taken_at_once_is_kept(self, form, fast_forward):
        grammar = Grammar("regex", "[0-9]+", fast_forward)
        _, rules, _ = asked(form(TOLD), options=GenerationOptions(response_format=grammar))
        assert rules.grammar.fast_forward is fast_forward


class TestHarmony:
    TEXT = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>so"
    CALL = "<|channel|>commentary to=functions.time <|constrain|>json<|message|>{}"

    @pytest.fixture
    def form(self, form):
        return form(HARMONY, special=CHANNELS)

    def test_its_messages_are_told_apart(self, form):
        assert form.markers is None
        prompt, rules, reading = asked(form)
        assert isinstance(form.reasoning(prompt), HarmonyRule)
        assert isinstance(reading.new_reader(), HarmonyParser)
        assert read(form, reading, self.TEXT) == ("hm", "so", [])
        assert read(form, reading, self.CALL) == ("", "", ["time"])
        assert read(form, reading, self.CALL, complete=False) == ("", "{}", [])
        assert "time" in rules.grammar.source

    def test_none_leaves_the_tokens_that_all_messages_begin_with(self, form):
        _, rules, reading = asked(form, tool_choice="none")
        assert rules.options.logit_bias is rules.grammar is None
        assert read(form, reading, self.TEXT) == ("hm", "so", [])
        assert read(form, reading, self.CALL) == ("", "{}", [])

    def test_messages_that_are_not_told_apart_stay_with_their_marks(self, form):
        for tools, choice in (((), "auto"), (TOOLS, "none")):
            _, _, reading = asked(form, tools=tools, tool_choice=choice, split_reasoning=False)
            assert isinstance(reading.new_reader(), MarkedReader)
            assert read(form, reading, self.TEXT) == ("", self.TEXT, [])
        with pytest.raises(OptionError, match="split_reasoning=False does not go together with tools"):
            asked(form, split_reasoning=False)

    def test_what_an_answer_must_look_like_is_its_last_message(self, form):
        options = GenerationOptions(response_format={"type": "regex", "regex": "[0-9]+"})
        for tools in ((), TOOLS):
            assert "[0-9]+" in asked(form, tools=tools, options=options)[1].grammar.source


def test_messages_that_are_none_are_refused_with_tools_too(form):
    with pytest.raises(ChatTemplateError, match="message 0 is"):
        form(PLAIN).prompt(["hi"], PromptOptions(), tools=TOOLS, definitions=read_tools(TOOLS))


def test_a_form_knows_what_it_found_out(form):
    form = form(TOLD)
    assert form.shows_tools
    assert form.tool_format(None) is form.tool_format(None)
    assert json.loads(
        form.prompt(QUESTION, PromptOptions(), tools=TOOLS, definitions=()).text.partition("[user]")[0]
    )


@pytest.mark.parametrize(
    ("text", "shows_tools", "written", "reasoning"),
    [
        (PLAIN, False, None, "<think>…</think>"),
        (TOLD, True, "hermes", "<think>…</think>"),
        (HARMONY, True, "harmony", "harmony channels"),
    ],
)
def test_facts_are_what_the_template_was_found_to_do(form, text, shows_tools, written, reasoning):
    marks = CHANNELS if text is HARMONY else MARKS
    facts = form(text, special=marks).facts
    assert (facts.shows_tools, facts.tool_call_format, facts.reasoning) == (shows_tools, written, reasoning)
    assert facts.template
