import secrets

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxgen.graph.cpu.compiled.header import HEADER_WORDS, Header
from onnxgen.graph.cpu.lora import (
    RECORD_WORDS,
    down_kernel,
    gated_tiles_kernel,
    pack_lora,
    parts_of_down,
    parts_of_up,
    up_kernel,
)
from onnxgen.graph.cpu.step.running import run_parts
from row_runs import ROWS, rows_at, run, spaced, strided

# any free word will do
ADAPTERS = HEADER_WORDS - 1


def header(adapters):
    words = np.zeros(HEADER_WORDS, np.int64)
    words[Header.TOKENS], words[ADAPTERS] = adapters.size, adapters.ctypes.data
    return words


def add(x, y, pairs, adapters):
    """``y`` with what the adapters of its rows add, by the kernels."""
    packed = [None if p is None else pack_lora(*p) for p in pairs]
    records = np.zeros((len(pairs), RECORD_WORDS), np.int64)
    for record, own in zip(records, packed, strict=True):
        if own is not None:
            record[:] = own.record
    most = max([1, *(len(p.a) for p in packed if p is not None)])
    (h, _), count = spaced(len(x), most * 16, 16), len(x)
    words = header(adapters)
    common = {"rows": ROWS, "adapters": ADAPTERS, "records": records.ctypes.data}
    for kernel, parts, more in (
        (
            down_kernel(),
            parts_of_down(count, x.shape[1], most),
            {**rows_at("x", x), "width": x.shape[1], "most": most},
        ),
        (up_kernel(), parts_of_up(count, y.shape[1], most), {**rows_at("y", y), "width": y.shape[1]}),
    ):
        run_parts(kernel, parts=parts, header=words, order=np.random.default_rng().permutation(parts),
                  **common, **rows_at("h", h), **more)  # fmt: skip
    return y


def random(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 9),
    width=st.integers(1, 70),
    columns=st.integers(1, 600),
    ranks=st.lists(st.integers(0, 40), min_size=1, max_size=4),
)
def test_each_row_gets_what_its_adapter_adds(seed, rows, width, columns, ranks):
    rng = np.random.default_rng(seed)
    pairs = [None if not r else (random(rng, r, width), random(rng, columns, r)) for r in ranks]
    adapters = rng.integers(-1, len(pairs), rows, dtype=np.int32)
    x, y = strided(random(rng, rows, width)), strided(random(rng, rows, columns))
    want = y.astype(np.float64)
    for i, k in enumerate(adapters):
        if k >= 0 and pairs[k] is not None:
            a, b = (m.astype(np.float64) for m in pairs[k])
            want[i] += b @ (a @ x[i].astype(np.float64))
    before = y.copy()
    add(x, y, pairs, adapters)
    np.testing.assert_allclose(y, want, atol=1e-3, rtol=1e-4)
    untouched = [i for i, k in enumerate(adapters) if k < 0 or pairs[k] is None]
    np.testing.assert_array_equal(y[untouched], before[untouched])


def test_a_row_gets_the_same_bits_in_any_company():
    rng = np.random.default_rng(secrets.randbits(32))
    pairs = [(random(rng, 5, 33), random(rng, 100, 5)), (random(rng, 21, 33), random(rng, 100, 21))]
    x, y = random(rng, 7, 33), random(rng, 7, 100)
    together = add(x, y.copy(), pairs, np.arange(7, dtype=np.int32) % 2)
    for i in range(7):
        alone = add(x[i : i + 1], y[i : i + 1].copy(), pairs, np.array([i % 2], np.int32))
        np.testing.assert_array_equal(alone[0], together[i])


def test_what_is_zero_of_b_is_left_out():
    rng = np.random.default_rng(secrets.randbits(32))
    b = np.zeros((50, 6), np.float32)
    b[:16, :2], b[32:, 2:] = 1, 2
    packed = pack_lora(random(rng, 6, 10), b)
    assert packed.tiles.tolist() == [[0, 2, 0], [0, 0, 0], [2, 4, 2], [2, 4, 6]]
    assert packed.b.shape == (10, 16)
    x, y = random(rng, 1, 10), np.zeros((1, 50), np.float32)
    add(x, y, [(np.eye(6, 10, dtype=np.float32), b)], np.zeros(1, np.int32))
    np.testing.assert_allclose(y[0], b @ x[0, :6], rtol=1e-5)


@pytest.mark.parametrize("width", [1, 16, 45, 1030])
def test_tiles_that_take_turns_are_gated(width):
    rng = np.random.default_rng(secrets.randbits(32))
    gate, up = random(rng, 3, width), random(rng, 3, width)
    tiles = -(-width // 16)
    x = np.zeros((3, tiles, 2, 16), np.float32)
    for which, part in enumerate((gate, up)):
        padded = np.zeros((3, tiles * 16), np.float32)
        padded[:, :width] = part
        x[:, :, which] = padded.reshape(3, tiles, 16)
    rows, (y, memory) = x.reshape(3, -1), spaced(3, width, 5)
    run(
        gated_tiles_kernel("silu"),
        3,
        parts=2,
        rows=ROWS,
        width=width,
        **rows_at("x", rows),
        **rows_at("y", y),
    )
    exact = gate.astype(np.float64)
    np.testing.assert_allclose(y, exact / (1 + np.exp(-exact)) * up, rtol=1e-5, atol=1e-6)
    assert (memory[:, width:] == 7).all()
