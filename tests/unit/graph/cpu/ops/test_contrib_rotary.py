from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import InvalidGraphError, KernelError

MS = "com.microsoft"
ANGLES = np.arange(20)[:, None] / 10.0 ** np.arange(4)
COS, SIN = np.cos(ANGLES).astype(np.float32), np.sin(ANGLES).astype(np.float32)


def seeded():
    seed = int(np.random.default_rng().integers(2**31))
    print("seed", seed)
    return np.random.default_rng(seed)


def compare(op_type, *inputs, **options):
    got, want = (run(op_type, *inputs, domain=MS, **options) for run in (run_cpu, run_ort))
    tolerance = 4e-3 if want.dtype == np.float16 else 1e-5
    assert_same(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("first", [False, True])
def test_every_layout_is_rotated_as_by_the_runtime(interleaved, first):
    rng = seeded()
    positions = np.array([4]) if first else rng.integers(0, 20, (2, 3))
    partial = {"num_heads": 2, "rotary_embedding_dim": 8}
    for shape, options in [
        ((2, 3, 16), {}),
        ((2, 2, 3, 8), {}),
        ((2, 2, 3, 12), partial),
        ((2, 3, 24), partial),
    ]:
        x = rng.standard_normal(shape).astype(np.float32)
        compare("RotaryEmbedding", x, positions, COS, SIN, interleaved=interleaved, **options)
    half = [a.astype(np.float16) for a in (rng.standard_normal((2, 3, 16)), COS, SIN)]
    compare("RotaryEmbedding", half[0], positions, *half[1:], interleaved=interleaved)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("section", [[2, 1, 1], [4, 0, 0], [1, 2, 1]])
def test_three_streams_of_positions(interleaved, layout, section):
    rng = seeded()
    positions = rng.integers(0, 20, (3, 2, 3))
    options = {"interleaved": interleaved, "mrope_layout": layout, "mrope_section": section, "num_heads": 2}
    for shape, more in [((2, 3, 16), {}), ((2, 2, 3, 12), {"rotary_embedding_dim": 8})]:
        x = rng.standard_normal(shape).astype(np.float32)
        compare("MRotaryEmbedding", x, positions, COS, SIN, **options, **more)


def test_positions_beyond_the_cache_are_errors():
    x = np.zeros((1, 2, 8), np.float32)
    for positions, message in [([[0, 20]], "index 20 is outside"), ([[0, 1, 2]], "do not fit")]:
        kernel = kernel_of(node_spec("RotaryEmbedding", x, np.array(positions), COS, SIN, domain=MS))
        with pytest.raises(KernelError, match=message):
            kernel.run(x, np.array(positions), COS, SIN)


def test_sections_are_three():
    with pytest.raises(InvalidGraphError, match="three numbers"):
        kernel_of(node_spec("MRotaryEmbedding", domain=MS, mrope_section=[1, 2]))


def test_gemmas_angles_come_as_they_are():
    rng = seeded()
    angles = rng.standard_normal((2, 3, 4)).astype(np.float32)
    parts = [rng.standard_normal((2, 1, 3, 4)).astype(np.float16) for _ in range(4)]
    got = run_cpu("GemmaRotaryEmbedding", angles, *parts, outputs=2, domain=MS)
    cos, sin = (f(angles)[:, None].astype(np.float16) for f in (np.cos, np.sin))
    want = [parts[0] * cos + parts[1] * sin, parts[2] * cos + parts[3] * sin]
    assert_same(list(got), want, rtol=2e-3, atol=2e-3)
