"""Transposed convolution and Col2Im."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort, run_reference


def _case(rng, rank, group):
    kernel, sizes = rng.integers(1, 4, rank), rng.integers(2, 6, rank)
    x = rng.standard_normal((2, 2 * group, *sizes)).astype(np.float32)
    w = rng.standard_normal((2 * group, 3, *kernel)).astype(np.float32)
    strides, dilations = rng.integers(1, 4, rank), rng.integers(1, 3, rank)
    return x, w, rng.standard_normal(3 * group).astype(np.float32), strides, dilations


@pytest.mark.parametrize(
    "variant", ["plain", "pads", "output_padding", "output_shape", "SAME_UPPER", "SAME_LOWER"]
)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_every_way_to_say_the_output_size(rank, variant):
    rng = fresh_rng()
    for group in (1, 2, 3):
        x, w, b, strides, dilations = _case(rng, rank, group)
        full = (np.array(x.shape[2:]) - 1) * strides + (np.array(w.shape[2:]) - 1) * dilations + 1
        attributes = {"group": group, "strides": strides.tolist(), "dilations": dilations.tolist()}
        if variant == "pads":
            attributes["pads"] = rng.integers(0, 2, 2 * rank).tolist()
            if (full - np.reshape(attributes["pads"], (2, rank)).sum(0) < 1).any():
                continue
        elif variant == "output_padding":
            attributes["output_padding"] = [int(rng.integers(0, stride)) for stride in strides]
        elif variant != "plain":
            attributes["output_shape"] = np.maximum(full - rng.integers(0, 3, rank), 1).tolist()
            attributes |= {"auto_pad": variant} if variant.startswith("SAME") else {}
        got = run_cpu("ConvTranspose", x, w, b, **attributes)
        assert_same(got, run_ort("ConvTranspose", x, w, b, opset=21, **attributes), atol=1e-4)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_same_padding_multiplies_the_size_by_the_stride(auto_pad):
    x, w = np.ones((1, 1, 5), np.float32), np.ones((1, 1, 2), np.float32)
    assert run_cpu("ConvTranspose", x, w, strides=[3], auto_pad=auto_pad).shape == (1, 1, 15)


def test_columns_in_several_blocks_give_the_same(monkeypatch):
    x, w, b, strides, dilations = _case(fresh_rng(), 2, 2)
    attributes = {"group": 2, "strides": strides.tolist(), "dilations": dilations.tolist()}
    whole = run_cpu("ConvTranspose", x, w, b, **attributes)
    monkeypatch.setattr("onnxgen.graph.cpu.convolution._BLOCK_BYTES", 1)
    assert_same(run_cpu("ConvTranspose", x, w, b, **attributes), whole)


@pytest.mark.parametrize("variant", [{}, {"strides": [2, 1]}, {"dilations": [1, 2]}, {"pads": [1, 0, 1, 2]}])
def test_col2im_sums_what_overlaps(variant):
    rng = fresh_rng()
    image, block = np.array([6, 7]), np.array([2, 3])
    ones = np.ones((1, 2, *image), np.float32)
    shown = run_cpu("Conv", ones, np.ones((2, 1, *block), np.float32), group=2, **variant)
    columns = rng.standard_normal((2, 12, shown[0, 0].size)).astype(np.float32)
    got = run_cpu("Col2Im", columns, image, block, **variant)
    assert_same(got, run_reference("Col2Im", columns, image, block, **variant), atol=1e-5)


def test_pads_may_be_an_input():
    rng = fresh_rng()
    x, w, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((1, 2, 5, 5), (2, 3, 3, 3), (3,)))
    inputs = x, w, np.array([1, 0, 1, 1]), b
    options = {"domain": "com.microsoft", "strides": [2, 2], "kernel_shape": [3, 3]}
    got, want = (run("ConvTransposeWithDynamicPads", *inputs, **options) for run in (run_cpu, run_ort))
    assert_same(got, want, rtol=1e-4, atol=1e-5)
