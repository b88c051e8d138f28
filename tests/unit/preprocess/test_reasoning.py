import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chat_templates import TEMPLATES, chat_template, chat_tokenizer
from onnxgen.preprocess.detokenizer import IncrementalDetokenizer
from onnxgen.preprocess.reasoning import ReasoningSplitter, split_reasoning
from onnxgen.preprocess.reasoning_markers import (
    PromptState,
    ReasoningMarkers,
    find_reasoning_markers,
    prompt_state,
)

THINK = ReasoningMarkers("<think>", "</think>")
OPEN, CLOSED, UNSAID = PromptState.OPEN, PromptState.CLOSED, PromptState.UNSAID
TOKENS = ReasoningMarkers("<think>", "</think>", 1, 2)
HARMONY = ReasoningMarkers(
    "<|channel|>analysis<|message|>",
    "<|end|>",
    headers=("<|start|>assistant<|channel|>final<|message|>", "<|channel|>final<|message|>", "<|start|>assistant"),
)  # fmt: skip


def feed(markers, pieces, state=UNSAID):
    splitter = ReasoningSplitter(markers, state)
    parts = [splitter.push(*piece) if isinstance(piece, tuple) else splitter.push(piece) for piece in pieces]
    parts.append(splitter.flush())
    return "".join(r for r, _ in parts), "".join(c for _, c in parts)


@pytest.mark.parametrize(
    ("text", "state", "expected"),
    [
        ("<think>\nwhy\n</think>\n\nyes", UNSAID, ("why", "yes")),
        ("why\n</think>\n\nyes", OPEN, ("why", "yes")),
        ("\n\nyes", CLOSED, ("", "yes")),
        ("yes", UNSAID, ("", "yes")),
        ("\n yes\n", UNSAID, ("", "\n yes\n")),
        ("  <think>a</think> b", UNSAID, ("a", " b")),
        ("<think>a", UNSAID, ("a", "")),
        ("a", OPEN, ("a", "")),
        ("", OPEN, ("", "")),
        ("", UNSAID, ("", "")),
        (" \n", UNSAID, ("", " \n")),
        ("</think>private</think>visible", OPEN, ("private", "visible")),
        ("\n</think>\nprivate</think>visible", OPEN, ("private", "visible")),
        ("</think>\n\nyes", OPEN, ("", "yes")),
        ("\n</think>\n\n\nyes</think>", OPEN, ("", "yes</think>")),
        ("</think>\n", OPEN, ("", "")),
        ("</think></think>b", OPEN, ("", "b")),
        ("</think>", OPEN, ("", "")),
        ("<think>a</think></think>b", UNSAID, ("a", "b")),
        ("</think>b", CLOSED, ("", "b")),
        ("<think>\nfirst\n</think>b", OPEN, ("first", "b")),
        ("<think></think>b", UNSAID, ("", "b")),
        ("say `</think>` twice</think>b", OPEN, ("say `</think>` twice", "b")),
        ('say "</think>', OPEN, ('say "', "")),
        ("it's</think>b", OPEN, ("it's", "b")),
        ("'</think>x", OPEN, ("'", "x")),
        ("a<think>b</think>c", UNSAID, ("", "a<think>b</think>c")),
        ("<think>a</think>use <think> and </think>", UNSAID, ("a", "use <think> and </think>")),
        ("<think>a</think>\n<think>b</think>c", UNSAID, ("a\n\nb", "c")),
        ("<thin", UNSAID, ("", "<thin")),
        ("a</thin", OPEN, ("a</thin", "")),
        ("a\n\nb\n</think>c", OPEN, ("a\n\nb", "c")),
        ("a < b</think>c < d", OPEN, ("a < b", "c < d")),
    ],
)
def test_text_is_split_at_its_markers(text, state, expected):
    assert split_reasoning(THINK, text, state) == expected
    assert feed(THINK, list(text), state) == expected


@pytest.mark.parametrize(
    ("pieces", "state", "expected"),
    [
        ([("<think>", 1), ("\n", 9), ("a", 9), ("</think>", 2), ("\n\n", 9), ("b", 9)], UNSAID, ("a", "b")),
        ([("`</think>` a", 9), ("</think>", 2), ("b", 9)], OPEN, ("`</think>` a", "b")),
        ([("a</think>b", 9)], OPEN, ("a</think>b", "")),
        ([("<think>", 9), ("b", 9)], UNSAID, ("", "<think>b")),
        ([("</think>", 2), ("private", 9), ("</think>", 2), ("visible", 9)], OPEN, ("private", "visible")),
        ([("</think>", 2), ("\n\n", 9), ("yes", 9)], OPEN, ("", "yes")),
        ([("</think>", 2), ("\n", 9), ("</think>", 2), ("yes", 9)], OPEN, ("", "yes")),
        ([("a", 9), ("</think>", 2), ("</think>", 2), ("b", 9)], OPEN, ("a", "b")),
        ([("a", 9), ("<think>", 1), ("b", 9), ("</think>", 2), ("c", 9)], UNSAID, ("b", "ac")),
        ([("a", 9), ("</think>", 2), ("b", 9)], UNSAID, ("", "a</think>b")),
        ([("<think>", 1), ("a", 9), ("<think>", 1), ("b", 9)], UNSAID, ("a<think>b", "")),
        ([("<think>", 1), ("<think>", 1), ("b", 9)], UNSAID, ("b", "")),
        ([("\n", 9), ("<think>", 1), ("b", 9)], UNSAID, ("b", "")),
        (
            [("<think>", 1), ("", 9), ("你</think>", 2), ("b", 9)],
            UNSAID,
            ("你", "b"),
        ),  # bytes were held before
        ([("", 1), ("a", 9), ("", 2), ("b", 9)], UNSAID, ("a", "b")),  # markers that are not shown
    ],
)
def test_a_marker_that_is_a_token_counts_as_a_token_only(pieces, state, expected):
    assert feed(TOKENS, pieces, state) == expected


def test_special_markers_out_of_place_are_not_shown():
    markers = ReasoningMarkers("[THINK]", "[/THINK]", 1, 2, shown_ids=frozenset((1, 2)))
    pieces = [("a", 9), ("[/THINK]", 2), ("b", 9)]
    assert feed(markers, pieces) == ("", "ab")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<|channel|>analysis<|message|>why<|end|><|start|>assistant<|channel|>final<|message|>yes", ("why", "yes")),
        ("<|channel|>final<|message|>yes", ("", "yes")),
        (
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b<|end|><|start|>assistant<|channel|>final<|message|>c",
            ("a\n\nb", "c"),
        ),
        ("<|channel|>??<|message|>x", ("", "<|channel|>??<|message|>x")),
    ],
)  # fmt: skip
def test_channels(text, expected):
    assert split_reasoning(HARMONY, text) == expected
    assert feed(HARMONY, list(text)) == expected


WORDS = [
    "<think>",
    "</think>",
    "a",
    " b",
    "\n",
    "\n\n",
    "`",
    "'",
    "<",
    "</",
    "think>",
    "<think",
    "<|end|>",
    "é",
]


@settings(max_examples=400, deadline=None)
@given(
    text=st.lists(st.sampled_from(WORDS), max_size=10).map("".join),
    state=st.sampled_from(PromptState),
    cuts=st.lists(st.integers(0, 60), max_size=10),
    markers=st.sampled_from([THINK, HARMONY]),
)
@example(text="`</think>`</think>", state=OPEN, cuts=[9], markers=THINK)
def test_the_split_does_not_depend_on_the_pieces(text, state, cuts, markers):
    if markers is HARMONY:
        text = text.replace("<think>", markers.opening).replace("</think>", markers.closing)
    whole = feed(markers, [text], state)
    edges = sorted({0, len(text), *(cut for cut in cuts if cut <= len(text))})
    assert feed(markers, [text[a:b] for a, b in itertools.pairwise(edges)], state) == whole
    assert feed(markers, list(text), state) == whole


@settings(max_examples=200, deadline=None)
@given(
    text=st.lists(st.sampled_from([w for w in WORDS if w not in ("<think>", "</think>")]), max_size=8).map(
        "".join
    )
)
def test_an_answer_without_markers_is_the_answer(text):
    if "<think>" not in text:
        assert feed(THINK, list(text)) == ("", text)
    assert feed(TOKENS, list(text)) == ("", text)


def test_little_is_held_back():
    splitter = ReasoningSplitter(THINK)
    assert splitter.push("<thi") == ("", "")
    assert splitter.push("nk>a</") == ("a", "")
    assert splitter.in_reasoning
    assert splitter.push("b") == ("</b", "")
    assert splitter.push("</think>x") == ("", "x")
    assert not splitter.in_reasoning
    assert splitter.push("</thi") == ("", "</thi")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return chat_tokenizer(tmp_path_factory.mktemp("chat"))


def test_markers_come_from_the_template(tokenizer, tmp_path):
    find = find_reasoning_markers
    think = tokenizer.token_to_id("<think>"), tokenizer.token_to_id("</think>")
    for name in ("qwen", "glm", "deepseek"):
        markers = find(TEMPLATES[name], tokenizer)
        assert (markers.opening, markers.closing, markers.opening_id, markers.closing_id) == (
            "<think>",
            "</think>",
            *think,
        )
        assert markers.shown_ids == frozenset()
    command = find(TEMPLATES["command"] + "<|END_THINKING|>", tokenizer)
    assert command.shown_ids == {command.opening_id, command.closing_id} <= tokenizer.special_ids
    harmony = find(TEMPLATES["harmony"] + "<|channel|>analysis<|message|>", tokenizer)
    assert harmony.opening_id is None and harmony.closing_id == tokenizer.token_to_id("<|end|>")
    assert tokenizer.token_to_id("<|message|>") in harmony.shown_ids
    gemma = find("'<|channel>thought\\n' + x + '<channel|>'", tokenizer)
    assert (gemma.opening, gemma.closing) == ("<|channel>thought\n", "<channel|>")
    assert find("<seed:think> </seed:think>", tokenizer).opening == "<seed:think>"


def test_without_a_template_markers_are_tokens(tmp_path):
    (tmp_path / "a").mkdir()
    tokenizer = chat_tokenizer(tmp_path / "a", special=["[THINK]", "[/THINK]"], plain=[])
    assert find_reasoning_markers(None, tokenizer).opening == "[THINK]"
    assert find_reasoning_markers("no markers", tokenizer).opening == "[THINK]"
    tokenizer = chat_tokenizer(tmp_path, special=["<s>"], plain=["<think>"])
    assert find_reasoning_markers("x", tokenizer) is None
    assert find_reasoning_markers("<|end|>", tokenizer) is None


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("qwen", {}, UNSAID),
        ("qwen", {"enable_thinking": False}, CLOSED),
        ("deepseek", {"thinking": True}, OPEN),
        ("deepseek", {}, CLOSED),
        ("glm", {}, UNSAID),
        ("glm", {"enable_thinking": False}, CLOSED),
        ("command", {}, OPEN),
    ],
)
def test_the_prompt_says_where_an_answer_begins(tokenizer, name, options, expected):
    markers = find_reasoning_markers(TEMPLATES[name], tokenizer)
    if name == "command":
        markers = find_reasoning_markers(TEMPLATES[name] + "<|END_THINKING|>", tokenizer)
    prompt = chat_template(TEMPLATES[name]).prompt(
        tokenizer, [{"role": "user", "content": "<think>"}], **options
    )
    assert prompt_state(markers, prompt.shadowed) is expected


def test_content_at_the_end_of_a_prompt_opens_nothing(tokenizer):
    prompt = chat_template("{{ messages[0].content }}").prompt(
        tokenizer, [{"role": "user", "content": "<think>"}]
    )
    assert prompt_state(THINK, prompt.shadowed) is UNSAID
    assert prompt_state(THINK, prompt.text) is OPEN


def test_tokens_of_an_answer(tokenizer):
    markers = find_reasoning_markers("[THINK] [/THINK]", tokenizer)
    ids = tokenizer.encode("[THINK]why 😀[/THINK]say [THINK") + tokenizer.encode("] é", parse_special=False)
    detokenizer = IncrementalDetokenizer(tokenizer, shown_ids=markers.shown_ids)
    splitter = ReasoningSplitter(markers)
    parts = [splitter.push(detokenizer.push(i), i) for i in ids]
    parts += [splitter.push(detokenizer.flush()), splitter.flush()]
    assert "".join(r for r, _ in parts) == "why 😀"
    assert "".join(c for _, c in parts) == "say [THINK] é"
