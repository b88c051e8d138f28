"""Random tensors and Dropout, also fused with additions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import CPU, assert_same, fresh_rng, kernel_of, node_spec, run_cpu, run_ort, run_reference
from onnxgen.errors import KernelError
from onnxgen.graph.ep.provider import Decline


def test_a_seed_makes_a_stream_that_begins_again_with_each_compilation():
    node = node_spec("RandomNormal", shape=[50], seed=2.5)
    first, again = kernel_of(node), kernel_of(node)
    stream = [first.run() for _ in range(3)]
    assert_same(stream, [again.run() for _ in range(3)], rtol=0, atol=0)
    assert not np.array_equal(stream[0], stream[1])


def test_without_a_seed_every_kernel_draws_differently():
    node = node_spec("RandomUniform", shape=[50])
    assert not np.array_equal(kernel_of(node).run(), kernel_of(node).run())


def test_distributions_have_the_moments_that_attributes_say():
    normal = run_cpu("RandomNormal", shape=[40000], mean=3.0, scale=0.5, seed=1.0)
    assert normal.dtype == np.float32
    assert abs(normal.mean() - 3) < 0.02 and abs(normal.std() - 0.5) < 0.02
    uniform = run_cpu("RandomUniform", shape=[40000], low=-1.0, high=3.0, seed=1.0, dtype=11)
    assert uniform.dtype == np.float64
    assert uniform.min() >= -1 and uniform.max() < 3 and abs(uniform.mean() - 1) < 0.03


@pytest.mark.parametrize("op_type", ["RandomNormalLike", "RandomUniformLike"])
def test_like_takes_shape_and_type_of_its_input(op_type):
    x = np.zeros((3, 0, 2), ml_dtypes.bfloat16)
    assert_same(run_cpu(op_type, x), x)
    assert run_cpu(op_type, np.zeros((2, 3), np.int32), dtype=10).dtype == np.float16


def test_bernoulli_follows_its_probabilities():
    probability = np.repeat(np.array([0, 0.25, 1], np.float32), 20000).reshape(3, -1)
    drawn = run_cpu("Bernoulli", probability, seed=3.0)
    assert drawn.dtype == np.float32 and set(np.unique(drawn)) == {0, 1}
    assert drawn[0].sum() == 0 and drawn[2].all() and abs(drawn[1].mean() - 0.25) < 0.02
    assert run_cpu("Bernoulli", probability, dtype=9).dtype == np.bool_


def test_multinomial_draws_classes_by_their_logarithms():
    logits = np.log(np.array([[0.1, 0.2, 0.7], [1, 1e-30, 1e-30]], np.float32))
    drawn = run_cpu("Multinomial", logits, sample_size=20000, seed=5.0, dtype=7)
    assert drawn.shape == (2, 20000) and drawn.dtype == np.int64
    shares = np.bincount(drawn[0], minlength=3) / 20000
    assert np.abs(shares - [0.1, 0.2, 0.7]).max() < 0.02 and not drawn[1].any()
    assert run_cpu("Multinomial", logits, opset=7).shape == (2, 1)


def test_threads_share_a_kernel():
    kernel = kernel_of(node_spec("RandomUniform", shape=[1000]))
    with ThreadPoolExecutor(4) as pool:
        drawn = list(pool.map(lambda _: kernel.run(), range(20)))
    assert len(np.unique(np.concatenate(drawn))) > 19_000


def test_dropout_does_nothing_unless_it_trains():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert_same(run_cpu("Dropout", x, opset=7, ratio=0.9), x)
    assert_same(run_cpu("Dropout", x, opset=1, ratio=0.9, is_test=1), x)
    for training in (None, np.array(False)):
        y, mask = run_cpu("Dropout", x, np.array(0.9, np.float32), training, opset=13, outputs=2)
        assert_same(y, x)
        assert mask.dtype == np.bool_ and mask.all()


def test_masks_had_the_type_of_the_data_before_opset_10():
    x = np.zeros(2, np.float32)
    assert run_cpu("Dropout", x, opset=7, outputs=2)[1].dtype == np.float32
    assert_same(run_cpu("Dropout", x, opset=10, outputs=2), run_ort("Dropout", x, opset=10, outputs=2))
    assert run_cpu("Dropout", x, opset=6, outputs=2, is_test=1)[1] is None


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_training_drops_and_scales(dtype):
    x = np.ones(20000, dtype)
    y, mask = run_cpu("Dropout", x, np.array(0.75, np.float32), np.array(True), outputs=2)
    assert y.dtype == dtype
    assert_same(y, (mask * 4.0).astype(dtype))
    assert abs(mask.mean() - 0.25) < 0.02
    old = run_cpu("Dropout", x, opset=6, ratio=0.75)
    assert set(np.unique(old.astype(np.float32))) == {0, 4}


def test_a_seeded_mask_is_the_one_of_the_reference():
    x, ratio, training = np.ones((5, 7), np.float32), np.array(0.5, np.float32), np.array(True)
    options = {"seed": 11, "outputs": 2, "opset": 13}
    assert_same(
        run_cpu("Dropout", x, ratio, training, **options),
        run_reference("Dropout", x, ratio, training, **options),
    )


def test_a_ratio_of_one_is_told():
    with pytest.raises(KernelError, match="less than 1"):
        run_cpu("Dropout", np.ones(3, np.float32), np.array(1.0), np.array(True))


def test_bias_dropout_drops_nothing_at_inference_and_is_declined_in_training():
    x, bias, ratio = (
        fresh_rng().random((3, 4), np.float32),
        fresh_rng().random(4, np.float32),
        np.array(0.5, np.float32),
    )
    total, mask = run_cpu("BiasDropout", x, bias, x, ratio, outputs=2, domain="com.microsoft")
    assert_same(total, x + bias + x)
    assert mask.all()
    training = node_spec(
        "BiasDropout", x, bias, None, ratio, np.array(True), constants=[4], domain="com.microsoft"
    )
    assert isinstance(CPU.claim(training), Decline)


def test_bitmask_dropout_drops_nothing_at_inference():
    x, bias = np.arange(40, dtype=np.float32).reshape(5, 8), np.ones(8, np.float32)
    y, mask = run_cpu("BitmaskDropout", x, outputs=2, domain="com.microsoft")
    assert_same(y, x)
    assert mask.tolist() == [0xFFFFFFFF] * 2
    assert_same(run_cpu("BitmaskBiasDropout", x, bias, x, domain="com.microsoft"), 2 * x + 1)
    training = node_spec("BitmaskDropout", x, np.array(0.5), np.array(True), domain="com.microsoft")
    assert isinstance(CPU.claim(training), Decline)
