"""Kernels made of functions."""

from __future__ import annotations

import numpy as np

from kernel_runs import node_spec
from onnxgen.graph.cpu.arrays import formula_kernel, function_kernel, ufunc_kernel


def test_rank_0_stays_an_array():
    one = np.array(1.0)
    for kernel in (
        ufunc_kernel(np.exp, num_inputs=1),
        formula_kernel(np.exp),
        function_kernel(np.exp),
    ):
        result = kernel.run(one)
        assert isinstance(result, np.ndarray) and result.shape == () and result == np.exp(1.0)


def test_a_ufunc_is_its_own_writer():
    kernel = ufunc_kernel(np.add, num_inputs=2)
    assert kernel.into is np.add and kernel.in_place == ((0, 0), (0, 1))
    assert ufunc_kernel(np.isnan, num_inputs=1, in_place=False).in_place == ()


def test_several_results_are_copied_into_their_places():
    node = node_spec("Split", np.zeros(4), outputs=2)
    kernel = function_kernel(lambda x: (x[:1] + 1, x[1:] * 2), node)
    first, rest = np.empty(1), np.empty(2)
    assert kernel.into is not None
    kernel.into(np.array([1.0, 2, 3]), first, rest)
    assert first.tolist() == [2] and rest.tolist() == [4, 6]
