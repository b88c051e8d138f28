from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from onnxgen.facade.search.rounds.ngrams import NGramIndex

TOKENS = st.lists(st.integers(0, 3), max_size=40)


def looked_up(tokens: list[int], context: list[int]) -> int | None:
    """Where the token is that came after the last occurrence of ``context`` that has one behind it."""
    size = len(context)
    starts = [i for i in range(len(tokens) - size) if tokens[i : i + size] == context]
    return starts[-1] + size if starts else None


@given(parts=st.lists(TOKENS, max_size=4), size=st.integers(2, 5), count=st.integers(1, 9))
def test_the_index_finds_what_a_search_would(parts, size, count):
    index = NGramIndex(size)
    tokens: list[int] = []
    for part in parts:
        index.extend(part)
        tokens += part
    assert len(index) == len(tokens)
    end = tokens[len(tokens) - size + 1 :] if len(tokens) >= size - 1 else None
    at = None if end is None else looked_up(tokens, end)
    assert index.continuation(count) == ([] if at is None else tokens[at : at + count])
    chain: list[int] = []
    context = end or []
    while end is not None and len(chain) < count and (at := looked_up(tokens, context)) is not None:
        chain.append(tokens[at])
        context = [*context[1:], tokens[at]]
    assert index.chain(count) == chain == index.copy().chain(count)


def test_a_copy_goes_its_own_way():
    index = NGramIndex(2)
    index.extend([1, 2, 1])
    copy = index.copy()
    copy.extend([3, 1])
    assert (index.chain(2), copy.chain(2)) == ([2, 1], [3, 1])
