import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxgen.facade.stops import StopMatcher


def feed(stops, pieces):
    matcher = StopMatcher(stops)
    shown = [matcher.push(piece) for piece in pieces]
    return shown, matcher.stopped, matcher.flush()


def test_text_that_may_become_a_stop_is_held_back():
    assert feed(["DEFGHIJ"], ["DEF", "G", "HI", "J"]) == (["", "", "", ""], True, "")
    assert feed(["DEFGHIJ"], ["DEF", "G", "HI", "X"]) == (["", "", "", "DEFGHIX"], False, "")


def test_what_is_held_back_at_the_end_is_flushed():
    assert feed(["END"], ["the E", "N"]) == (["the ", ""], False, "EN")


def test_text_is_cut_before_the_stop_and_ends_there():
    assert feed(["\nUser:"], ["Hi", " there\nUs", "er: more", "more"]) == (["Hi", " there", "", ""], True, "")


def test_blanks_count():
    stops = ["atoms with a large number of 11 protons", "ionized"]
    shown, stopped, _ = feed(stops, ["These", " atoms", " are", " highly", " ion", "ized", "."])
    assert "".join(shown) == "These atoms are highly "
    assert stopped


@pytest.mark.parametrize(
    ("stops", "text", "expected"),
    [
        (["abcd", "bc"], "xabcd", "xa"),  # "bc" is complete first
        (["cd", "abcd"], "xabcdy", "x"),  # both end together: the longest
        (["b", "a"], "cab", "c"),
        (["aa"], "aaa", ""),
        (["aab"], "aaab", "a"),
        (["😀é"], "x😀é안", "x"),
    ],
)
def test_the_first_complete_stop_wins(stops, text, expected):
    for pieces in ([text], list(text)):
        shown, stopped, held = feed(stops, pieces)
        assert ("".join(shown), stopped, held) == (expected, True, "")


@given(
    text=st.text(alphabet="abc", max_size=40),
    stops=st.lists(st.text(alphabet="abc", min_size=1, max_size=5), max_size=4),
    cuts=st.lists(st.integers(0, 40), max_size=8),
)
def test_the_result_does_not_depend_on_the_pieces(text, stops, cuts):
    edges = sorted({0, len(text), *(cut for cut in cuts if cut <= len(text))})
    pieces = [text[a:b] for a, b in itertools.pairwise(edges)]
    shown, stopped, held = feed(stops, pieces)
    whole, whole_stopped, whole_held = feed(stops, [text])
    assert ("".join(shown) + held, stopped) == ("".join(whole) + whole_held, whole_stopped)
    assert stopped == any(stop in text for stop in stops)


@given(text=st.text(alphabet="ab", max_size=20), stop=st.text(alphabet="ab", min_size=1, max_size=4))
def test_nothing_is_held_back_that_cannot_become_a_stop(text, stop):
    shown, stopped, held = feed([stop], list(text))
    if not stopped:
        assert stop.startswith(held)
        assert "".join(shown) + held == text
