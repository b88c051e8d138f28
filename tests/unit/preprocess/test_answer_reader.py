"""`MarkedReader`: reasoning and calls told apart in one answer, whatever the pieces it comes in."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_templates import chat_tokenizer
from onnxgen.preprocess.answer_reader import MarkedReader
from onnxgen.preprocess.detokenizer import IncrementalDetokenizer
from onnxgen.preprocess.reasoning import ReasoningSplitter
from onnxgen.preprocess.reasoning_markers import PromptState, ReasoningMarkers, find_reasoning_markers
from onnxgen.preprocess.tool_calls.bound import bind
from onnxgen.preprocess.tool_calls.formats import FORMATS
from onnxgen.preprocess.tool_calls.parser import ToolCallParser
from tool_call_runs import TOOLS

SPELLED = ReasoningMarkers("<think>", "</think>")
HERMES = bind(FORMATS["hermes"], None)
OPEN, CLOSED, UNSAID = PromptState.OPEN, PromptState.CLOSED, PromptState.UNSAID
NOW = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
SAID = [("now", {})]
PIECES = (
    *("a", "é", "😀", " ", "\n", "\n\n", '"', "`", "</", "<", ">", "{", "}", "[]"),
    *("<think>", "</think>", "<tool_call>", "</tool_call>", '{"name": "now"}', NOW),
)


def reader(markers=SPELLED, bound=HERMES, state=UNSAID):
    ids = itertools.count()
    return MarkedReader(
        None if markers is None else ReasoningSplitter(markers, state),
        None if bound is None else ToolCallParser(bound, TOOLS, new_id=lambda: f"{next(ids)}"),
    )


def read(reader, pieces, *, complete=True):
    """Reasoning, content and calls of a whole answer."""
    parts = [reader.push(*piece) if isinstance(piece, tuple) else reader.push(piece) for piece in pieces]
    parts.append(reader.flush(complete=complete))
    calls = [(call.name, json.loads(call.arguments)) for part in parts for call in part.calls]
    return "".join(p.reasoning for p in parts), "".join(p.content for p in parts), calls


@pytest.mark.parametrize(
    ("text", "state", "expected"),
    [
        (f"<think>\nhm\n</think>\n\n{NOW}", UNSAID, ("hm", "", SAID)),
        (f"hm</think>{NOW}", OPEN, ("hm", "", SAID)),
        (f"hm</think>Wait.\n{NOW}", OPEN, ("hm", "Wait.", SAID)),
        (f"Wait.\n{NOW}\n{NOW}", CLOSED, ("", "Wait.", SAID * 2)),
        (f"</think>\n\n{NOW}", OPEN, ("", "", SAID)),
        (f"<think>say {NOW}</think>no", UNSAID, (f"say {NOW}", "no", [])),
        (f"{NOW} is what I say</think>{NOW}", OPEN, (f"{NOW} is what I say", "", SAID)),
        (f"{NOW}", OPEN, (NOW, "", [])),
        (f'as "</think>" says</think>{NOW}', OPEN, ('as "</think>" says', "", SAID)),
        (f"<think>a</think><think>b</think>{NOW}", UNSAID, ("a\n\nb", "", SAID)),
        (f"{NOW}<think>b</think>c", UNSAID, ("", "<think>b</think>c", SAID)),
        ("<think>a</think>\n\nb ", UNSAID, ("a", "b ", [])),
        ("", OPEN, ("", "", [])),
    ],
)
def test_every_split_point_agrees(text, state, expected):
    for at in range(len(text) + 1):
        assert read(reader(state=state), [text[:at], text[at:]]) == expected
    assert read(reader(state=state), text) == expected


@pytest.mark.parametrize("markers", [None, SPELLED])
@pytest.mark.parametrize("bound", [None, HERMES])
def test_what_is_not_looked_for_stays_text(markers, bound):
    answer = f"<think>a</think>b {NOW}"
    thought, said = ("", "<think>a</think>b") if markers is None else ("a", "b")
    expected = (thought, f"{said} {NOW}", []) if bound is None else (thought, said, SAID)
    assert read(reader(markers, bound), [answer]) == expected


@pytest.mark.parametrize("blank", ["", "\n"])
def test_a_call_without_its_closing_counts_where_the_model_ended(blank):
    text = "b " + NOW.removesuffix("\n</tool_call>") + blank
    assert read(reader(), [f"<think>a</think>{text}"]) == ("a", "b", SAID)
    assert read(reader(), [f"<think>a</think>{text}"], complete=False) == ("a", text, [])


def test_what_was_cut_anywhere_is_lost_nowhere():
    text = f"hm</think>b {NOW}"
    for end in range(len(text)):
        reasoning, content, calls = read(reader(state=OPEN), [text[:end]], complete=False)
        if "</think>" in text[:end]:
            assert (reasoning, content, calls) == ("hm", text[:end].partition("</think>")[2], [])
        else:
            assert (reasoning, content, calls) == (text[:end], "", [])


@given(
    pieces=st.lists(
        st.sampled_from(PIECES),
        max_size=10,
    ),
    cuts=st.sets(st.integers(0, 300)),
    state=st.sampled_from(PromptState),
    complete=st.booleans(),
)
def test_no_cut_matters(pieces, cuts, state, complete):
    text = "".join(pieces)
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    parts = [text[a:b] for a, b in itertools.pairwise(places)]
    whole = read(reader(state=state), [text], complete=complete)
    assert read(reader(state=state), parts, complete=complete) == whole
    # reasoning and the rest are those of the splitter alone, and calls those of the parser alone
    reasoning, rest, _ = read(reader(bound=None, state=state), [text], complete=complete)
    assert whole == (reasoning, *read(reader(markers=None), [rest], complete=complete)[1:])


class TestTokens:
    """Marks that are tokens of the vocabulary."""

    TEXTS = ("<think>", "</think>", "<tool_call>", "</tool_call>")

    def read(self, tokenizer, text, *, state=UNSAID, reasoning_tokens=True, parse_special=True):
        """The answer of the tokens of a text, of which `parse_special` takes the marks for tokens."""
        markers = find_reasoning_markers("<think></think>", tokenizer) if reasoning_tokens else SPELLED
        bound = bind(FORMATS["hermes"], tokenizer)
        shown = markers.shown_ids | bound.shown_ids
        detokenizer, one = IncrementalDetokenizer(tokenizer, shown_ids=shown), reader(markers, bound, state)
        ids = tokenizer.encode(text, parse_special=parse_special)
        pieces = [(detokenizer.push(token), token) for token in ids]
        return read(one, [*pieces, detokenizer.flush()])

    @pytest.fixture(params=["special", "plain"])
    def tokenizer(self, request, tmp_path):
        kinds = {"special": [], "plain": [], request.param: list(self.TEXTS)}
        return chat_tokenizer(tmp_path, **kinds)

    @pytest.fixture
    def spelled_thoughts(self, tmp_path):
        """Only the marks of calls are tokens."""
        return chat_tokenizer(tmp_path, special=list(self.TEXTS[2:]), plain=[])

    def test_calls_in_reasoning_are_reasoning(self, tokenizer):
        assert self.read(tokenizer, f"<think>é {NOW}</think>{NOW}") == (f"é {NOW}", "", SAID)
        assert self.read(tokenizer, f"{NOW}\n</think>\n\nno", state=OPEN) == (NOW, "no", [])

    def test_a_call_right_after_reasoning_is_one(self, tokenizer):
        for between in ("", "\n", "\n\n"):
            assert self.read(tokenizer, f"a</think>{between}{NOW}", state=OPEN) == ("a", "", SAID)

    def test_marks_that_are_spelled_are_text(self, tmp_path):
        tokenizer = chat_tokenizer(tmp_path, special=list(self.TEXTS), plain=[])
        text = f"<think>a</think>{NOW}"
        assert self.read(tokenizer, text, parse_special=False) == ("", text, [])

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (f"a</think>{NOW}", ("a", "", SAID)),
            (f"a</think>\n\n{NOW}", ("a", "", SAID)),
            (f'a "</think>{NOW}', ('a "', "", SAID)),
            (f"a</thi{NOW}</think>b", (f"a</thi{NOW}", "b", [])),
            (f"a</think><thi{NOW}", ("a", "<thi", SAID)),
            (f"</think>\n{NOW}</think>b", (NOW, "b", [])),
        ],
    )
    def test_a_mark_after_text_that_was_held_back_is_still_one(self, spelled_thoughts, text, expected):
        got = self.read(spelled_thoughts, text, state=OPEN, reasoning_tokens=False)
        assert got == expected
