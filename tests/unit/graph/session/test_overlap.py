import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from onnxgen.graph.session.overlap import apart


@st.composite
def views(draw: st.DrawFn) -> list[np.ndarray]:
    """Views of a few arrays, of any strides."""
    bases = [np.zeros((4, 6), np.float32) for _ in range(2)]
    found = []
    for _ in range(draw(st.integers(0, 7))):
        base = draw(st.sampled_from(bases))
        rows, columns = (
            slice(draw(st.integers(0, 3)), draw(st.integers(0, n)), draw(st.sampled_from([1, 2])))
            for n in (4, 6)
        )
        view = base[rows, columns][:: draw(st.sampled_from([1, -1]))]
        found.append(view.T if draw(st.booleans()) else view)
    return found


@given(views(), st.integers(0, 7))
def test_arrays_are_alone_where_numpy_says_so_of_every_pair(arrays: list[np.ndarray], split: int) -> None:
    ours = arrays[:split]
    expected = [
        not any(np.may_share_memory(array, other) for j, other in enumerate(arrays) if j != i)
        for i, array in enumerate(ours)
    ]
    assert apart(ours, arrays[split:]) == expected


def test_the_same_array_twice_is_not_alone() -> None:
    x = np.zeros(3)
    assert apart([x, x, np.zeros(3)], []) == [False, False, True]
    assert apart([x], [x]) == [False]
    assert apart([np.zeros(0)], [np.zeros(0)]) == [True]
