import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_runs import fresh_rng
from onnxgen.foundations.packed_bits import pack, unpack


@given(st.lists(st.integers(0, 15)), st.sampled_from([1, 2, 4]))
def test_packing_is_undone_by_unpacking(values, width):
    bits = np.array(values, np.uint8) & (2**width - 1)
    packed = pack(bits, width)
    assert packed.size == -(-len(values) * width // 8)
    np.testing.assert_array_equal(unpack(packed, width, len(values)), bits)


def test_the_first_element_lies_lowest():
    assert pack(np.array([1, 2, 3], np.uint8), 4).tolist() == [0x21, 0x03]
    assert pack(np.array([[1, 2], [3, 0]], np.uint8), 2).tolist() == [0b00111001]


def test_other_widths_are_our_own_mistake():
    with pytest.raises(AssertionError):
        pack(np.zeros(3, np.uint8), 3)


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("count", [0, 1, 7, 16])
def test_packing_by_shifts_and_unpacking_gives_the_numbers(bits, count):
    numbers = fresh_rng().integers(0, 1 << bits, (3, count))
    rows = [sum(int(n) << (i * bits) for i, n in enumerate(row)) for row in numbers]
    packed = np.array([list(row.to_bytes(-(-count * bits // 8), "little")) for row in rows], np.uint8)
    assert unpack(packed.reshape(3, -1), bits, count).tolist() == numbers.tolist()
