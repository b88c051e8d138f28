import itertools
import random
import time

import pytest

from onnxgen.preprocess.answer_pieces import AnswerPieces
from onnxgen.preprocess.harmony import HarmonyParser
from onnxgen.preprocess.harmony_markers import Control, HarmonyMarkers, find_harmony_markers, open_header
from onnxgen.preprocess.tool_calls.tools import ToolDefinition

TEXT = HarmonyMarkers()
IDS = {control: 100 + n for n, control in enumerate(Control)}
TOKENS = HarmonyMarkers({token: control for control, token in IDS.items()}, frozenset(IDS.values()))
TOOLS = tuple(
    ToolDefinition(name, "", {"type": "object"}, False)
    for name in ("f", "get_weather", "web-browsing", "python")
)
ASSISTANT = "<|start|>assistant"


def parser_of(
    markers=TEXT, tools=TOOLS, prompt=f"{ASSISTANT}<|channel|>final<|message|>old<|end|>{ASSISTANT}"
):
    numbers = itertools.count(1)
    return HarmonyParser(markers, tools, prompt=prompt, new_id=lambda: f"call{next(numbers)}")


def read(pieces, *, complete=True, **options):
    """All of an answer: reasoning, content, names and arguments of the calls."""
    parser = parser_of(**options)
    parts = [parser.push(*piece) if isinstance(piece, tuple) else parser.push(piece) for piece in pieces]
    parts.append(parser.flush(complete=complete))
    return joined(parts)


def joined(parts):
    calls = [(call.name, call.arguments) for part in parts for call in part.calls]
    return "".join(part.reasoning for part in parts), "".join(part.content for part in parts), calls


def as_tokens(text):
    """The text as tokens: control tokens, and single characters."""
    result, at = [], 0
    while at < len(text):
        control = next((c for c in Control if text.startswith(c.value, at)), None)
        result.append((text[at], 1) if control is None else (control.value, IDS[control]))
        at += len(result[-1][0])
    return result


CASES = {
    "final": ("<|channel|>final<|message|>yes<|return|>", ("", "yes", [])),
    "reasoning": (
        f"<|channel|>analysis<|message|>why\n<|end|>{ASSISTANT}<|channel|>final<|message|>yes<|return|>",
        ("why\n", "yes", []),
    ),
    "two thoughts": (
        f"<|channel|>analysis<|message|>a<|end|>{ASSISTANT}<|channel|>analysis<|message|>b<|end|>",
        ("a\n\nb", "", []),
    ),
    "an empty thought": (
        f"<|channel|>analysis<|message|><|end|>{ASSISTANT}<|channel|>analysis<|message|>b<|end|>",
        ("b", "", []),
    ),
    "preamble": (
        f"<|channel|>commentary<|message|>I look.<|end|>{ASSISTANT}<|channel|>final<|message|>yes",
        ("", "I look.\n\nyes", []),
    ),
    "call": (
        '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>',
        ("", "", [("f", '{"a": 1}')]),
    ),
    "recipient in the role": (
        (
            f"{ASSISTANT} to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>"
            '{"city":"Lima"}<|call|>'
        ),
        ("", "", [("get_weather", '{"city":"Lima"}')]),
    ),
    "recipient after the prompt's role": (
        ' to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>{"city":"Lima"}<|call|>',
        ("", "", [("get_weather", '{"city":"Lima"}')]),
    ),
    "name with a dash": (
        "<|channel|>commentary to=functions.web-browsing <|constrain|>json<|message|>{}<|call|>",
        ("", "", [("web-browsing", "{}")]),
    ),
    "duplicate channel": (
        "<|channel|>commentary<|channel|>commentary to=functions.f<|message|>{}<|call|>",
        ("", "", [("f", "{}")]),
    ),
    "unknown channel": ("<|channel|>??<|message|>x", ("", "x", [])),
    "no channel": ("<|message|>x<|end|>", ("", "x", [])),
    "no header": ("Hello there", ("", "Hello there", [])),
    "no header, a blank": (" \nHello", ("", " \nHello", [])),
    "to is a word": ("to be or not to be", ("", "to be or not to be", [])),
    "to is all": ("to", ("", "to", [])),
    "nothing": ("", ("", "", [])),
    "missing end": (
        f"<|channel|>analysis<|message|>why{ASSISTANT}<|channel|>final<|message|>yes",
        ("why", "yes", []),
    ),
    "missing end and start": (
        "<|channel|>analysis<|message|>why<|channel|>final<|message|>yes",
        ("why", "yes", []),
    ),
    "missing start": (
        "<|channel|>analysis<|message|>why<|end|>assistant<|channel|>final<|message|>yes",
        ("why", "yes", []),
    ),
    "text after an end": (
        "<|channel|>analysis<|message|>why<|end|>So it is yes.",
        ("why", "So it is yes.", []),
    ),
    "missing message": ("<|channel|>final Hello there<|return|>", ("", "Hello there", [])),
    "missing message, long": ("<|channel|>analysis " + "why " * 100, ("why " * 100, "", [])),
    "header alone": ("<|channel|>final<|return|>", ("", "", [])),
    "constrain without channel": (
        "<|constrain|>json<|message|>{}<|return|>",
        ("", "{}", []),
    ),
    "arguments without constrain": (
        "<|channel|>commentary to=functions.f json<|message|>{}<|call|>",
        ("", "", [("f", "{}")]),
    ),
    "call in analysis": (
        '<|channel|>analysis to=functions.f code<|message|>{"a":1}<|call|>',
        ("", "", [("f", '{"a":1}')]),
    ),
    "call that ends otherwise": (
        '<|channel|>commentary to=functions.f<|message|>{"a":1}<|end|>',
        ("", "", [("f", '{"a":1}')]),
    ),
    "call that ends with the answer": (
        '<|channel|>commentary to=functions.f<|message|>{"a":1}',
        ("", "", [("f", '{"a":1}')]),
    ),
    "two calls": (
        (
            f"<|channel|>commentary to=functions.f<|message|>{{}}<|call|>{ASSISTANT}<|channel|>commentary "
            'to=functions.get_weather<|message|>{"a":"}<"}<|call|>'
        ),
        ("", "", [("f", "{}"), ("get_weather", '{"a":"}<"}')]),
    ),
    "no arguments": (
        "<|channel|>commentary to=functions.f<|message|><|call|>",
        ("", "", [("f", "{}")]),
    ),
    "arguments that are no object": (
        '<|channel|>commentary to=functions.f<|message|>["a"]<|call|>',
        ("", '["a"]', []),
    ),
    "broken arguments": (
        "<|channel|>commentary to=functions.f<|message|>{'a<|call|>",
        ("", "{'a", []),
    ),
    "a tool without its namespace": (
        "<|channel|>commentary to=python<|message|>{}<|call|>",
        ("", "", [("python", "{}")]),
    ),
    "a recipient that is no tool": (
        "<|channel|>analysis to=browser.search<|message|>{}<|call|>",
        ("{}", "", []),
    ),
    "the user": ("<|channel|>commentary to=user<|message|>hi<|end|>", ("", "hi", [])),
    "an invented result": (
        "<|start|>functions.f to=assistant<|channel|>commentary<|message|>42<|end|>",
        ("", "42", []),
    ),
    "controls inside of a message": (
        "<|channel|>final<|message|>a<|message|>b<|constrain|>c",
        ("", "abc", []),
    ),
    "start alone": ("<|start|><|start|>assistant<|start|>", ("", "", [])),
    "junk after a start": ("<|start|>" + "x" * 300 + "<|end|>", ("", "x" * 300, [])),
    "markers of others": ("<|channel|>final<|message|><|chan <|channel>", ("", "<|chan <|channel>", [])),
}


@pytest.mark.parametrize("name", CASES)
def test_an_answer_is_read_whatever_its_headers_are(name):
    text, expected = CASES[name]
    assert read([text]) == expected
    assert read(as_tokens(text), markers=TOKENS) == expected


@pytest.mark.parametrize("name", CASES)
def test_every_split_point_gives_the_same(name):
    text, expected = CASES[name]
    assert read(list(text)) == expected
    for at in range(len(text)):
        assert read([text[:at], text[at:]]) == expected, at
    tokens = as_tokens(text)
    unseen = [("", token) if token in IDS.values() else (shown, token) for shown, token in tokens]
    assert read(unseen, markers=TOKENS) == expected


@pytest.mark.parametrize("name", CASES)
def test_a_cut_answer_has_no_call_that_is_not_whole(name):
    text, (_, _, calls) = CASES[name]
    for at in range(len(text)):
        _, content, got = read([text[:at]], complete=False)
        assert got == calls[: len(got)], at
        ended = text[:at].count("<|call|>") + text[:at].count("<|end|>") + text[:at].count("<|start|>")
        assert len(got) <= ended, at
        if '{"a' in text[:at] and not got and name == "call":
            assert content == text[text.index("{") : at]


def test_control_tokens_that_are_tokens_count_as_tokens_only():
    assert read([("<|channel|>final<|message|>a", 1)], markers=TOKENS) == (
        "",
        "<|channel|>final<|message|>a",
        [],
    )
    pieces = [("", IDS[Control.CHANNEL]), ("final", 1), ("", IDS[Control.MESSAGE]), ("say <|end|>", 1)]
    assert read(pieces, markers=TOKENS) == ("", "say <|end|>", [])


def test_text_that_was_held_back_comes_before_the_control_token():
    pieces = [("<|channel|>", IDS[Control.CHANNEL]), ("final", 1), ("<|message|>", IDS[Control.MESSAGE])]
    assert (
        read([*pieces, ("", 1), ("\N{SNOWMAN}<|end|>", IDS[Control.END])], markers=TOKENS)[1] == "\N{SNOWMAN}"
    )


def test_without_tools_nothing_is_a_call():
    assert read(["<|channel|>commentary to=functions.f<|message|>{}<|call|>"], tools=()) == ("", "{}", [])


@pytest.mark.parametrize(
    ("prompt", "answer", "expected"),
    [
        (f"x<|end|>{ASSISTANT}", "<|channel|>final<|message|>a", ("", "a", [])),
        (f"x<|end|>{ASSISTANT}<|channel|>analysis<|message|>", "why<|end|>", ("why", "", [])),
        (f"x<|end|>{ASSISTANT}<|channel|>analysis<|message|>so ", "far<|end|>", ("far", "", [])),
        (f"x<|end|>{ASSISTANT}<|channel|>final<|message|>Once", " upon<|return|>", ("", " upon", [])),
        (f"x<|end|>{ASSISTANT}<|channel|>", "final<|message|>a", ("", "a", [])),
        (
            f"x<|end|>{ASSISTANT}<|channel|>commentary to=functions.f<|message|>",
            "{}<|call|>",
            ("", "", [("f", "{}")]),
        ),
        ("plain text", "<|start|>assistant<|channel|>final<|message|>a", ("", "a", [])),
        ("plain text", "assistant<|channel|>final<|message|>a", ("", "a", [])),
        ("plain text", "more of it", ("", "more of it", [])),
    ],
)
def test_an_answer_goes_on_where_its_prompt_ends(prompt, answer, expected):
    assert read([answer], prompt=prompt) == expected
    assert read(list(answer), prompt=prompt) == expected


def test_content_is_shown_as_it_comes():
    parser = parser_of()
    assert parser.push("Hello") == AnswerPieces("", "Hello", ())
    assert parser.push("<|channel|>analysis<|message|>") == AnswerPieces()
    assert parser.in_reasoning
    assert parser.push("why") == AnswerPieces("why", "", ())
    assert parser.push("<|end|><|channel|>commentary to=functions.f<|message|>") == AnswerPieces()
    assert parser.opened
    assert parser.push("{") == AnswerPieces()
    (call,) = parser.push("}<|call|>").calls
    assert (call.id, call.name, call.arguments) == ("call1", "f", "{}")
    assert not parser.opened and parser.flush(complete=True) == AnswerPieces()


def test_no_text_is_lost_in_any_row_of_controls():
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(300):
        parts = [
            rng.choice([*(c.value for c in Control), "word", " ", "assistant", "final", "{}"])
            for _ in range(12)
        ]
        text = "".join(f"{part}{n}" if part == "word" else part for n, part in enumerate(parts))
        whole = read([text])
        assert read(list(text)) == whole, text
        assert read(as_tokens(text), markers=TOKENS) == whole, text
        shown = whole[0] + whole[1]
        pieces = text.split("<|message|>")[1:]
        for piece in pieces:
            body = piece.split("<|")[0]
            assert body in shown or body.strip() in [arguments for _, arguments in whole[2]], text


@pytest.mark.parametrize(
    "text",
    [
        "<|channel|>" * 10_000,
        "<|start|>" * 11_000,
        "<|start|>assistant to=functions.f<|channel|>commentary<|message|>{" * 1_500,
        "<|channel|>commentary to=functions.f<|message|>" + "[" * 100_000,
        "<" * 100_000,
        "<|channel|>" + "to= " * 25_000,
        " to=" * 25_000,
        "<|message|>" * 9_000,
    ],
    ids=lambda text: text[:20],
)
def test_hostile_answers_are_read_in_time_that_grows_with_their_length(text):
    def duration(pieces):
        begin = time.process_time()
        read(pieces)
        return time.process_time() - begin

    small, large = (min(duration(list(text[:size])) for _ in range(2)) for size in (4_000, 32_000))
    assert (
        large < 20 * small + 0.05
    )  # 4 times as long; a quadratic reader takes 16 times and far more than that


def test_harmony_is_known_by_its_template():
    class Vocabulary:
        special_ids = frozenset((5, 6))

        def token_to_id(self, text):
            return {"<|channel|>": 5, "<|message|>": 6, "<|end|>": 7}.get(text)

    markers = find_harmony_markers("{{ '<|start|>assistant<|channel|>final<|message|>' }}", Vocabulary())
    assert markers.control_by_id == {5: Control.CHANNEL, 6: Control.MESSAGE, 7: Control.END}
    assert markers.shown_ids == {5, 6}
    assert find_harmony_markers("<|channel>thought", Vocabulary()) is None
    assert find_harmony_markers(None, Vocabulary()) is None
    assert open_header("a<|start|>b<|start|>c") == "c" and open_header("a") == ""
