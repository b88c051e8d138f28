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


def first_stop(stops, text):
    """Where the text is cut, and by which stop; from the definition."""
    for end in range(1, len(text) + 1):
        found = [(-len(stop), i) for i, stop in enumerate(stops) if text[:end].endswith(stop)]
        if found:
            length, index = min(found)
            return text[: end + length], index
    return text, None


@given(
    text=st.text(alphabet="ab", max_size=30),
    stops=st.lists(st.text(alphabet="ab", min_size=1, max_size=6), max_size=6),
    size=st.integers(1, 7),
)
def test_the_cut_and_the_stop_are_those_of_the_definition(text, stops, size):
    matcher = StopMatcher(stops)
    shown = "".join(matcher.push(text[at : at + size]) for at in range(0, len(text), size))
    assert (shown + matcher.flush(), matcher.matched) == first_stop(stops, text)


@given(
    text=st.text(alphabet="ab", max_size=30),
    stops=st.lists(st.text(alphabet="ab", min_size=1, max_size=6), min_size=1, max_size=4),
)
def test_exactly_the_longest_beginning_of_a_stop_is_held(text, stops):
    matcher, shown = StopMatcher(stops), ""
    for at, character in enumerate(text, start=1):
        shown += matcher.push(character)
        if matcher.stopped:
            break
        held = text[len(shown) : at]
        longest = max(n for stop in stops for n in range(len(stop)) if text[:at].endswith(stop[:n]))
        assert len(held) == longest


def test_the_stop_that_was_found_is_known():
    matcher = StopMatcher(["x", "END", "END"])
    assert [matcher.push(piece) for piece in ("a E", "ND", "x")] == ["a ", "", ""]
    assert (matcher.matched, matcher.stopped) == (1, True)


def test_without_stops_everything_passes_at_once():
    assert feed([], ["a", "", "bc"]) == (["a", "", "bc"], False, "")


def test_long_texts_that_are_held_and_let_through_again():
    stop = "a" * 50_000 + "b"
    stops = [stop, *("a" * n + "c" for n in range(1, 200))]
    text = "a" * 100_000
    matcher = StopMatcher(stops)
    shown = [matcher.push(text[:60_000]), *map(matcher.push, text[60_000:])]
    assert len(shown[0]) == 10_000 and set(map(len, shown[1:])) == {1}
    assert matcher.push("bx") == "" and matcher.matched == 0
    assert "".join(shown) == "a" * 50_000


def test_a_released_beginning_may_hold_the_next_one():
    assert feed(["aab"], ["a", "a", "a", "c"]) == (["", "", "a", "aac"], False, "")


def test_answers_with_the_same_stops_do_not_know_of_each_other():
    first, second = StopMatcher(["END"]), StopMatcher(["END"])
    assert first.push("xEN") == second.push("x") == "x"
    assert second.push("D.") == "D."
    assert first.push("D") == "" and first.stopped and not second.stopped
