"""Rearranging images."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from kernel_runs import CPU, assert_same, fresh_rng, node_spec, run_cpu, run_ort
from onnxgen.graph.ep.provider import Decline


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize("block", [1, 2, 3])
def test_depth_to_space_and_back(mode, block):
    x = fresh_rng().standard_normal((2, 2 * block * block, 3, 4)).astype(np.float32)
    y = run_cpu("DepthToSpace", x, blocksize=block, mode=mode)
    assert_same(y, run_ort("DepthToSpace", x, opset=13, blocksize=block, mode=mode))
    assert_same(run_cpu("SpaceToDepth", y, opset=28, blocksize=block, mode=mode), x)


def test_cropping_and_padding_keep_the_centre():
    x = np.arange(1, 6, dtype=np.float32)
    assert run_cpu("CenterCropPad", x, np.array([2])).tolist() == [2, 3]
    assert run_cpu("CenterCropPad", x, np.array([8])).tolist() == [0, 1, 2, 3, 4, 5, 0, 0]
    both = run_cpu("CenterCropPad", np.ones((3, 2, 5), np.float32), np.array([1, 4]), axes=[-1, 1])
    assert both.shape == (3, 4, 1) and both[0, :, 0].tolist() == [0, 1, 1, 0]


@pytest.mark.skipif(importlib.util.find_spec("PIL") is not None, reason="Pillow is installed")
def test_decoding_without_pillow_is_declined_with_what_to_install():
    claim = CPU.claim(node_spec("ImageDecoder", np.zeros(3, np.uint8)))
    assert isinstance(claim, Decline) and "pip install pillow" in claim.reason
