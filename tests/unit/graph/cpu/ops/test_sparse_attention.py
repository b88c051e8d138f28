from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from kernel_runs import assert_same, kernel_of, node_spec, one_node_model, run_cpu
from onnxgen.errors import KernelError

MS = "com.microsoft"
HEADS, KV_HEADS, DIM, BLOCK, BLOCKS = 4, 2, 16, 16, 4
OPTIONS = {
    "domain": MS,
    "num_heads": HEADS,
    "kv_num_heads": KV_HEADS,
    "sparse_block_size": BLOCK,
    "outputs": 3,
}


class Call:
    def __init__(self, totals, seq):
        seed = int(np.random.default_rng().integers(2**31))
        print("seed", seed)
        self.rng = np.random.default_rng(seed)
        batch = len(totals)
        self.masks = np.tril(self.rng.random((2, BLOCKS, BLOCKS)) < 0.6)
        self.masks[:, np.arange(BLOCKS), np.arange(BLOCKS)] = True
        rows = np.concatenate([np.zeros((2, 1)), self.masks.sum(2).cumsum(1)], 1).astype(np.int32)
        columns = np.full((2, rows[:, -1].max()), -1, np.int32)
        for layout, mask in enumerate(self.masks):
            columns[layout, : rows[layout, -1]] = np.nonzero(mask)[1]
        self.inputs = [
            *(self.floats(batch, seq, heads * DIM) for heads in (HEADS, KV_HEADS, KV_HEADS)),
            *(self.floats(batch, KV_HEADS, BLOCK * BLOCKS, DIM) for _ in range(2)),
            *(rows, columns, np.array([max(totals)], np.int32), np.array(totals, np.int32)),
        ]

    def floats(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def rotated(self):
        angles = np.arange(64)[:, None] / 10.0 ** np.arange(DIM // 2)
        self.inputs += [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
        return self


def run_shared(inputs, **options):
    """ONNX Runtime with the caches as inputs and outputs in one, which it demands."""
    import onnxruntime

    model = one_node_model("SparseAttention", *inputs, output_types=[ir.DataType.FLOAT] * 3, **options)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    arrays = [np.ascontiguousarray(array.copy()) for array in inputs]
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in arrays]
    binding = session.io_binding()
    for index, value in enumerate(values):
        binding.bind_ortvalue_input(f"x{index}", value)
    binding.bind_output("y0")
    binding.bind_ortvalue_output("y1", values[3])
    binding.bind_ortvalue_output("y2", values[4])
    session.run_with_iobinding(binding)
    return [binding.get_outputs()[0].numpy().copy(), *arrays[3:5]]


@pytest.mark.parametrize(("totals", "seq"), [([40, 40], 40), ([16], 16), ([50, 50], 1), ([20], 3)])
@pytest.mark.parametrize("rotary", [None, 0, 1])
def test_blocks_hide_keys_as_in_the_runtime(totals, seq, rotary):
    call = Call(totals, seq)
    options = OPTIONS if rotary is None else {**OPTIONS, "do_rotary": 1, "rotary_interleaved": rotary}
    if rotary is not None:
        call.rotated()
    got, want = run_cpu("SparseAttention", *call.inputs, **options), run_shared(call.inputs, **options)
    assert_same(got[0], want[0], rtol=1e-4, atol=1e-4)
    for cache, wanted in zip(got[1:], want[1:], strict=True):
        assert_same(cache[:, :, : totals[0]], wanted[:, :, : totals[0]], atol=1e-5)


def test_a_batch_of_several_lengths_is_its_sequences_alone():
    call = Call([50, 37], 1)
    got = run_cpu("SparseAttention", *call.inputs, **OPTIONS)
    for row, total in enumerate((50, 37)):
        alone = [x[row : row + 1] for x in call.inputs[:5]]
        lengths = np.array([total], np.int32)
        want = run_cpu("SparseAttention", *alone, *call.inputs[5:7], lengths, lengths, **OPTIONS)
        assert_same(got[0][row], want[0][0], atol=1e-5)


def test_packed_projections_are_the_separate_ones():
    call = Call([40, 40], 40)
    want = run_cpu("SparseAttention", *call.inputs, **OPTIONS)
    packed = np.concatenate(call.inputs[:3], axis=-1)
    assert_same(list(run_cpu("SparseAttention", packed, None, None, *call.inputs[3:], **OPTIONS)), list(want))


def test_lengths_beyond_the_cache_are_errors():
    call = Call([40], 40)
    call.inputs[8] = np.array([99], np.int32)
    with pytest.raises(KernelError, match=r"lengths \[99\] do not fit"):
        kernel_of(node_spec("SparseAttention", *call.inputs, **OPTIONS)).run(*call.inputs)
