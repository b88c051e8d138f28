"""Steps cut into passes: every token goes where it belongs, however many there are."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxgen.backends.base import SequenceInput, Step, pack_step
from onnxgen.backends.native.contents import spans_of
from onnxgen.backends.native.passes import RotaryRows, cut_step
from onnxgen.graph.cpu.compiled.header import Header

sequences = st.lists(
    st.tuples(st.integers(1, 60), st.integers(0, 50), st.sampled_from(["last", "all", "none"])),
    min_size=1,
    max_size=6,
)


def make_step(parts) -> Step:
    used, inputs = 0, []
    for length, context, logits in parts:
        count = -(-(length + context) // 8)
        inputs.append(SequenceInput(range(length), context, range(used, used + count), logits=logits))
        used += count
    return pack_step(inputs)


@given(parts=sequences, most=st.integers(1, 70))
def test_passes_cover_the_step(parts, most: int):
    step = make_step(parts)
    ids, slots, rows, contexts = [], [], [], {}
    done = 0
    for own in cut_step(
        step, spans_of(step), most_tokens=most, block_size=8, stored_size=16, rotary=RotaryRows()
    ):
        token_ids, positions, ends, lens, wanted, table, its, window_table, window_its, *_ = own.arrays
        header = own.header
        assert np.array_equal(window_table, table), "without a group of windows, its words say the same"
        assert np.array_equal(window_its, its)
        assert header[Header.WINDOW_TABLE_WIDTH] == header[Header.BLOCK_TABLE_WIDTH] == table.shape[1]
        assert 1 <= header[Header.TOKENS] == token_ids.size == ends[-1] <= most
        assert header[Header.SEQS] == lens.size == len(table) == len(ends) - 1
        assert header[Header.ROWS] == wanted.size == own.shape.rows
        assert header[Header.BLOCK_SIZE] == 16
        assert own.first_row == len(rows)
        for i, context in enumerate(lens):
            length = ends[i + 1] - ends[i]
            assert length > 0
            assert np.array_equal(positions[ends[i] : ends[i + 1]], np.arange(context, context + length))
            first = int(table[i, 0])
            assert contexts.get(first, context) == context, "it goes on where the pass before ended"
            contexts[first] = context + length
        ids += token_ids.tolist()
        slots += its.tolist()
        rows += (wanted + done).tolist()
        done += token_ids.size
    assert ids == step.token_ids.tolist()
    assert rows == step.logits_rows.tolist()
    expected = [
        int(step.block_table[i, position // 8]) * 16 + position % 8
        for i, (length, context, _) in enumerate(parts)
        for position in range(context, context + length)
    ]
    assert slots == expected


@pytest.mark.parametrize("length", [5, 50])
def test_long_sequences_use_the_table_behind(length: int):
    step = make_step([(length, 0, "last"), (1, 2, "last")])
    rotary = RotaryRows(switch_length=4, long_start=100)
    (own,) = cut_step(step, spans_of(step), most_tokens=64, block_size=8, stored_size=16, rotary=rotary)
    assert own.arrays[1].tolist() == [*range(100, 100 + length), 2]


@given(parts=sequences, most=st.integers(1, 70))
def test_windowed_layers_have_slots_of_their_own(parts, most: int):
    step, window = make_step(parts), 12
    tables = np.where(step.block_table < 0, -1, step.block_table[::-1].max() - step.block_table)
    for row, (_, context, _) in zip(tables, parts, strict=True):
        row[: max(context - window + 1, 0) // 8] = -1
    step = dataclasses.replace(step, window_table=tables.astype(np.int32))
    cut = list(
        cut_step(
            step,
            spans_of(step, window=window),
            most_tokens=most,
            block_size=8,
            stored_size=16,
            rotary=RotaryRows(),
        )
    )
    expected = [
        int(tables[i, position // 8]) * 16 + position % 8
        for i, (length, context, _) in enumerate(parts)
        for position in range(context, context + length)
    ]
    assert [slot for own in cut for slot in own.arrays[8].tolist()] == expected
    for own in cut:
        assert own.header[Header.WINDOW_TABLE_WIDTH] == tables.shape[1]
        assert own.header[Header.WINDOW_SLOTS] == own.arrays[8].ctypes.data
        assert len(own.arrays[7]) == own.header[Header.SEQS]
