from hypothesis import given
from hypothesis import strategies as st

from onnxgen.backends.ort.calls import split_into_calls

CAPACITY = 32


@st.composite
def steps(draw):
    slots = draw(st.lists(st.integers(0, 12), min_size=1, max_size=8, unique=True))
    lens = []
    for _ in slots:
        query = draw(st.integers(1, CAPACITY))
        lens.append((draw(st.integers(0, CAPACITY - query)), query))
    past, query = (list(v) for v in zip(*lens, strict=True))
    return slots, past, query


@given(steps(), st.integers(0, 100), st.none() | st.integers(1, CAPACITY))
def test_every_call_keeps_what_attention_asks_for(step, padding_limit, switch):
    slots, past, query = step
    calls = split_into_calls(
        slots, past, query, capacity=CAPACITY, padding_limit=padding_limit, switch_length=switch
    )
    assert sorted(i for call in calls for i in call) == list(range(len(slots)))
    for call in calls:
        at = [slots[i] for i in call]
        assert at == sorted(at)
        longest, span = max(query[i] for i in call), at[-1] - at[0] + 1
        assert all(past[i] + longest <= CAPACITY for i in call)
        if span > len(call):  # an idle slot counts as one token long
            assert 1 + longest <= CAPACITY
        if switch is not None:
            assert len({past[i] + query[i] > switch for i in call}) == 1
        padding = span * longest - sum(query[i] for i in call)
        evenly_long = all(query[i] * 2 > longest for i in call)
        assert padding <= padding_limit or (evenly_long and span == len(call))


def split(slots, past, query, limit=100):
    return split_into_calls(slots, past, query, capacity=CAPACITY, padding_limit=limit)


def test_prefill_and_decode_share_a_call_while_padding_is_cheap():
    assert split([5, 3, 4], [0, 9, 30], [2, 1, 1]) == [[1, 2, 0]]


def test_a_nearly_full_slot_leaves_a_long_chunk():
    assert split([0, 1], [0, 31], [8, 1]) == [[0], [1]]


def test_decode_leaves_a_long_prompt_when_padding_costs_more_than_the_weights():
    assert split([0, 1, 2, 3], [0, 1, 1, 1], [20, 1, 1, 1], limit=10) == [[0], [1, 2, 3]]


def test_far_apart_slots_are_cut_at_the_widest_gap():
    assert split([0, 1, 12], [1, 1, 1], [1, 1, 1], limit=2) == [[0, 1], [2]]
