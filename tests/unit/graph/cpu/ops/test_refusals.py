"""Values and attributes that have no meaning are errors that name the node; nothing is read or written beside its inputs."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import run_cpu
from onnxgen.errors import InvalidGraphError, KernelError


def ones(*shape):
    return np.ones(shape, np.float32)


def whole(*values):
    return np.array(values, np.int64)


def number(value, dtype=np.int64):
    return np.array(value, dtype)


IMAGE, WEIGHTS = ones(1, 3, 4, 4), ones(2, 3, 2, 2)
STEPS = ones(5, 2, 3)
LSTM = {"hidden_size": 4}
NOT = np.nan

CASES = [
    ("Range", [number(0), number(1), number(0)], {}, "delta is 0"),
    ("Range", [ones(), number(np.inf, np.float32), ones()], {}, "no number of elements"),
    ("Expand", [ones(2), whole(3)], {}, "do not broadcast"),
    ("Expand", [ones(1), whole(-1)], {}, "do not broadcast"),
    ("Tile", [ones(2), whole(-1)], {}, "do not fit"),
    ("CenterCropPad", [ones(2, 2), whole(-1, 1)], {}, "does not fit"),
    ("CenterCropPad", [ones(2, 2), whole(1)], {"axes": (2,)}, "axis 2 is outside"),
    ("SpaceToDepth", [ones(1, 1, 5, 4)], {"blocksize": 2}, "5 x 4 is not made of blocks"),
    ("DepthToSpace", [ones(1, 5, 2, 2)], {"blocksize": 2}, "no multiple of 2 x 2"),
    ("DepthToSpace", [ones(1, 4, 2, 2)], {"blocksize": 0}, "at least 1"),
    ("RandomNormal", [], {"shape": (-1,)}, "negative dimension"),
    ("Conv", [IMAGE, WEIGHTS, ones(3)], {}, "does not fit 2 output channels"),
    ("Conv", [IMAGE, ones(3, 1, 2, 2), ones(2)], {"group": 3}, "does not fit 3 output channels"),
    ("Conv", [IMAGE, WEIGHTS], {"kernel_shape": (3, 3)}, "not that of the weights"),
    ("MaxUnpool", [ones(1, 1, 1, 1), np.full((1, 1, 1, 1), -1)], {"kernel_shape": (2, 2)}, "index -1"),
    ("Resize", [IMAGE, None, None, whole(1, 3, -2, 2)], {}, "not negative"),
    ("Resize", [IMAGE, None, ones(4) * NOT], {}, "positive"),
    ("Resize", [IMAGE], {}, "neither scales nor sizes"),
    ("Resize", [IMAGE, None, None, whole(2)], {"axes": (9,)}, "axis 9 is outside"),
    ("RoiAlign", [IMAGE, ones(1, 4), whole(-1)], {}, "index -1"),
    ("RoiAlign", [IMAGE, ones(1, 4) * NOT, whole(0)], {}, "not finite"),
    ("MaxRoiPool", [IMAGE, ones(1, 5) * -1], {"pooled_shape": (1, 1)}, "index -1"),
    ("DFT", [ones(1, 8, 1), number(0)], {}, "no transform of length 0"),
    ("DFT", [ones(1, 8, 1), None, number(2)], {}, "along axis 2"),
    ("STFT", [ones(1, 8, 1), number(0), ones(4)], {}, "0 apart"),
    ("STFT", [ones(1, 8, 1), number(-1), ones(4)], {}, "-1 apart"),
    ("STFT", [ones(1, 8, 1), number(1)], {}, "neither a window"),
    ("HannWindow", [number(-1)], {}, "negative"),
    ("MelWeightMatrix", [number(4), number(16), number(0), ones(), ones()], {}, "no matrix"),
    ("MelWeightMatrix", [number(4), number(16), number(8), ones(), ones() * 1e6], {}, "outside"),
    ("AffineGrid", [ones(1, 2, 3), whole(1, 1, 2, 2, 2)], {}, "does not fit"),
    ("NonMaxSuppression", [ones(1, 3, 4), ones(1, 1, 9), whole(5)], {}, "do not fit scores"),
    ("ReverseSequence", [ones(4, 2), whole(5, 1)], {}, "do not fit 2 sequences of 4 steps"),
    ("RotaryEmbedding", [ones(1, 1, 1, 4), ones(4, 2), ones(4, 2), whole([4])], {}, "index 4"),
    ("LayerNormalization", [ones(2, 3), ones(3)], {"axis": 2}, "axis 2 is outside"),
    ("InstanceNormalization", [IMAGE, ones(2), ones(2)], {}, "3 elements"),
    ("GroupNormalization", [IMAGE, ones(2), ones(2)], {"num_groups": 3}, "3 elements"),
    ("GroupNormalization", [IMAGE, ones(3), ones(3)], {"num_groups": 0}, "at least 1"),
    ("DequantizeLinear", [np.zeros((4, 4), np.int8), ones(4)], {"axis": 2}, "no axis 2"),
    ("DequantizeLinear", [np.zeros((4, 4), np.int8), ones(4, 2)], {"block_size": -2}, "blocks of -2"),
    ("LRN", [IMAGE], {"size": 0}, "at least 1"),
    ("LSTM", [STEPS, ones(1, 16, 9), ones(1, 16, 4)], LSTM, "W is of shape"),
    ("LSTM", [STEPS, ones(1, 16, 3), ones(1, 12, 4)], LSTM, "R is of shape"),
    ("LSTM", [STEPS, ones(1, 16, 3), ones(1, 16, 4), ones(1, 8)], LSTM, "B is of shape"),
    ("LSTM", [STEPS, ones(1, 16, 3), ones(1, 16, 4), None, None, ones(1, 9, 4)], LSTM, "initial state"),
    ("GRU", [STEPS, ones(1, 12, 3), ones(1, 12, 4), None, number([6, 1], np.int32)], LSTM, "from 0 to 5"),
    ("RNN", [STEPS, ones(1, 4, 3), ones(1, 4, 4)], {"hidden_size": 3}, "R is of shape"),
]

INT32 = np.int32
CACHE, BLOCKS = ones(1, 1, 8, 4), ones(2, 4, 1, 4)
TOKEN, HEAD = ones(1, 4), {"num_heads": 1, "kv_num_heads": 1, "outputs": 3}

CONTRIB = [
    ("PackedAttention", [ones(6, 4), ones(4, 12), ones(12), np.zeros((1, 6), INT32), number([0, 3], INT32)], {"num_heads": 2}, "do not divide 6 tokens"),
    ("RemovePadding", [ones(2, 3, 4), number([4, 1], INT32)], {"outputs": 4}, "do not fit an input"),
    ("RestorePadding", [ones(2, 4), number([[-1, 1]], INT32)], {}, "index -1"),
    ("RelativePositionBias", [ones(8, 2), whole(-2), whole(4)], {"max_distance": 4}, "must not be negative"),
    ("CropAndResize", [IMAGE, ones(1, 4), number([0], INT32), number([-1, 3], INT32)], {}, "must not be negative"),
    ("GroupNorm", [ones(1, 2, 2, 6), ones(5), ones(5)], {"groups": 3}, "do not fit 6 channels"),
    ("NGramRepeatBlock", [whole(1, 2)[None], ones(1, 4)], {"ngram_size": 0}, "at least 1"),
    ("MatMulNBits", [ones(1, 32), np.zeros((4, 1, 16), np.uint8), ones(4), None, np.full(32, -1, INT32)], {"K": 32, "N": 4, "bits": 4, "block_size": 32}, "index -1"),
    ("MultiHeadAttention", [TOKEN[None]] * 3 + [None] * 3 + [CACHE, CACHE, number([9], INT32)], HEAD | {"num_heads": 1}, "do not fit a cache of 8"),
    ("SparseAttention", [ones(1, 4, 4)] * 3 + [CACHE, CACHE, number([[0, 1]], INT32), number([[0]], INT32), number(8, INT32), number([2], INT32)], HEAD | {"sparse_block_size": 8}, "do not fit totals"),
    ("PagedAttention", [TOKEN] * 3 + [BLOCKS, BLOCKS, number([0, 1], INT32), number([0], INT32), number([[9]], INT32)], HEAD, "index 36"),
    ("PagedAttention", [TOKEN] * 3 + [BLOCKS, BLOCKS, number([0, 1], INT32), number([-3], INT32), number([[1]], INT32)], HEAD, "past lengths"),
    ("VarlenCausalConvWithState", [ones(3, 2), ones(2, 1, 2), number([0, 5, 3], INT32), None, ones(2, 2, 1)], {"outputs": 2}, "do not divide 3 tokens"),
]  # fmt: skip


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "message"), CONTRIB)
def test_what_has_no_meaning_is_refused_by_operators_of_onnx_runtime(op_type, inputs, attributes, message):
    with pytest.raises((KernelError, InvalidGraphError), match=message):
        run_cpu(op_type, *inputs, domain="com.microsoft", **attributes)


def test_a_sequence_that_is_longer_than_its_blocks_attends_to_what_they_hold():
    past = number([2**31 - 2], INT32)
    inputs = [TOKEN] * 3 + [BLOCKS, BLOCKS, number([0, 1], INT32), past, number([[1]], INT32)]
    output, *_ = run_cpu("PagedAttention", *inputs, domain="com.microsoft", **HEAD)
    np.testing.assert_allclose(output, TOKEN)


@pytest.mark.parametrize("name", ["max_skip_count", "max_gram_length"])
def test_n_grams_that_are_longer_than_any_row_take_no_time(name):
    options = {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "mode": "TF"}
    options |= {"ngram_counts": (0, 1), "ngram_indexes": (0, 1), "pool_int64s": (1, 1, 2)}
    x = whole(1, 2, 1, 2)
    exact = run_cpu("TfIdfVectorizer", x, **options | {name: 3})
    np.testing.assert_array_equal(run_cpu("TfIdfVectorizer", x, **options | {name: 10**12}), exact)


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "message"), CASES)
def test_what_has_no_meaning_is_refused(op_type, inputs, attributes, message):
    with pytest.raises((KernelError, InvalidGraphError), match=message):
        run_cpu(op_type, *inputs, **attributes)


def test_a_negative_number_of_boxes_selects_none():
    assert run_cpu("NonMaxSuppression", ones(1, 3, 4), ones(1, 1, 3), whole(-1)).shape == (0, 3)


def test_a_window_of_channels_that_is_wider_than_the_input_ends_with_it():
    x = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    wide, exact = (run_cpu("LRN", x, size=size, alpha=float(size)) for size in (10**9 + 1, 5))
    np.testing.assert_allclose(wide, exact, rtol=1e-6)
