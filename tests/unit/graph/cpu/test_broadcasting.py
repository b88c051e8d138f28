"""Broadcasting by attributes, as before opset 7."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from kernel_runs import assert_same, run_cpu


@given(shape=array_shapes(min_dims=1, max_dims=4, max_side=4), data=st.data())
def test_any_part_of_the_first_shape_fits(shape, data):
    start = data.draw(st.integers(0, len(shape)))
    end = data.draw(st.integers(start, len(shape)))
    a = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    b = np.arange(np.prod(shape[start:end], dtype=int), dtype=np.float32).reshape(shape[start:end])
    expected = a - b.reshape(shape[start:end] + (1,) * (len(shape) - end))
    axes = [start, start - len(shape)] if start < len(shape) else [start]
    for axis in axes:
        assert_same(run_cpu("Sub", a, b, opset=6, broadcast=1, axis=axis), expected)
