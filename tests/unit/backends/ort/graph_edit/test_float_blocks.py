from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxgen.backends.ort.graph_edit.float_blocks import speed_up_float_blocks


@pytest.fixture
def rng():
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    return np.random.default_rng(seed)


class Matrix:
    """A random quantized matrix and what it means in float64."""

    def __init__(self, rng, k: int, n: int, *, bits: int, block: int, zero_points: str = "none"):
        self.k, self.n, self.bits, self.block = k, n, bits, block
        blocks = -(-k // block)
        codes = rng.integers(0, 1 << bits, (n, blocks * block)).astype(np.uint8)
        self.scales = rng.standard_normal((n, blocks)).astype(np.float32)
        self.codes = codes if bits == 8 else codes[:, 0::2] | (codes[:, 1::2] << 4)
        self.codes = self.codes.reshape(n, blocks, block * bits // 8)
        points = np.full((n, blocks), 1 << (bits - 1), np.float32)
        self.points: np.ndarray | None = None
        if zero_points == "float":
            self.points = points = rng.uniform(-3, 18, (n, blocks)).astype(np.float32)
        values = (codes.reshape(n, blocks, block) - points[..., None].astype(np.float64)) * self.scales[
            ..., None
        ]
        self.values = values.reshape(n, -1)[:, :k]


def _model(x_dims, matrices: list[Matrix], *, level: int, biases: list[np.ndarray | None] | None = None):
    nodes, initializers, outputs = [], [], []
    for i, m in enumerate(matrices):
        bias = biases[i] if biases else None
        arrays = {"codes": m.codes, "scales": m.scales, "points": m.points, "bias": bias}
        names = [f"{k}{i}" if v is not None else "" for k, v in arrays.items()]
        initializers += [numpy_helper.from_array(v, f"{k}{i}") for k, v in arrays.items() if v is not None]
        names.insert(3, "")  # no group index
        attributes = {"K": m.k, "N": m.n, "bits": m.bits, "block_size": m.block, "accuracy_level": level}
        nodes.append(
            helper.make_node("MatMulNBits", ["x", *names], [f"y{i}"], domain="com.microsoft", **attributes)
        )
        outputs.append(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, x_dims)
    graph = helper.make_graph(nodes, "g", [x], outputs, initializers)
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    return ir.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=11))


def _run(model: ir.Model, x: np.ndarray) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString(), options)
    return session.run(None, {"x": x})


def _kinds(model: ir.Model) -> list[str]:
    return [n.op_type for n in model.graph]


def _error(found: np.ndarray, x: np.ndarray, matrix: Matrix) -> float:
    """Largest error, relative to what the terms of a sum add up to without signs."""
    exact = x.astype(np.float64) @ matrix.values.T
    scale = np.abs(x).astype(np.float64) @ np.abs(matrix.values).T
    return float((np.abs(found - exact) / scale.max()).max())


@pytest.mark.parametrize("block", [16, 32, 64, 128])
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (3, 2)])
def test_float_zero_points_give_the_same_product_by_block_sums(block, shape, rng):
    k = block * int(rng.integers(1, 5))
    matrix = Matrix(rng, k, int(rng.integers(1, 70)), bits=4, block=block, zero_points="float")
    model = _model(["b", "s", k], [matrix], level=0)
    x = rng.standard_normal((*shape, k)).astype(np.float32)
    (before,) = _run(model, x)
    assert speed_up_float_blocks(model.graph) == 1
    (after,) = _run(model, x)
    assert after.shape == before.shape
    assert _error(before, x, matrix) < 1e-5
    assert _error(after, x, matrix) < 1e-5
    assert len(_first(model, "MatMulNBits").inputs) <= 5 or _first(model, "MatMulNBits").inputs[3] is None


@pytest.mark.parametrize("block", [16, 32, 64])
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (4, 3)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_8_bits_with_float_activations_round_them_in_two_steps(block, shape, with_bias, rng):
    k = block * int(rng.integers(1, 5))
    matrix = Matrix(rng, k, int(rng.integers(1, 70)), bits=8, block=block)
    bias = rng.standard_normal(matrix.n).astype(np.float32) if with_bias else None
    model = _model(["b", "s", k], [matrix], level=0, biases=[bias])
    x = rng.standard_normal((*shape, k)).astype(np.float32)
    x[..., 0] *= 1000  # an outlier takes its block's whole int8 range
    (before,) = _run(model, x)
    assert speed_up_float_blocks(model.graph) == 1
    (after,) = _run(model, x)
    assert after.shape == before.shape
    exact = x.astype(np.float64) @ matrix.values.T + (0 if bias is None else bias)
    largest = np.repeat(np.abs(x.reshape(*shape, -1, block)).max(-1), block, axis=-1)
    assert (
        np.abs(after - exact) <= 2**-15 * (largest @ np.abs(matrix.values).T) + 1e-6 * np.abs(exact)
    ).all()
    level = _first(model, "MatMulNBits").attributes["accuracy_level"]
    assert level.as_int() == 4


def test_rows_of_zeros_stay_zero(rng):
    matrix = Matrix(rng, 64, 5, bits=8, block=32)
    model = _model(["b", "s", 64], [matrix], level=1)
    speed_up_float_blocks(model.graph)
    (found,) = _run(model, np.zeros((1, 2, 64), np.float32))
    assert not found.any()


@pytest.mark.parametrize(("bits", "zero_points"), [(4, "float"), (8, None)])
def test_there_may_be_no_rows_at_all(bits, zero_points, rng):
    # a chunk of a prompt wants no logits, so the head gets no rows
    kind = {} if zero_points is None else {"zero_points": zero_points}
    matrix = Matrix(rng, 96, 5, bits=bits, block=32, **kind)
    model = _model(["b", "s", 96], [matrix], level=0)
    assert speed_up_float_blocks(model.graph) == 1
    (found,) = _run(model, np.zeros((1, 0, 96), np.float32))
    assert found.shape == (1, 0, 5)


def test_matrices_of_one_input_share_its_sums_and_its_rounding(rng):
    points = [Matrix(rng, 64, 8, bits=4, block=32, zero_points="float") for _ in range(3)]
    model = _model(["b", "s", 64], points, level=0)
    assert speed_up_float_blocks(model.graph) == 3
    assert _kinds(model).count("ReduceSum") == 1
    rounded = _model(["b", "s", 64], [Matrix(rng, 64, 8, bits=8, block=32) for _ in range(2)], level=0)
    assert speed_up_float_blocks(rounded.graph) == 2
    assert _kinds(rounded).count("Round") == 1
    x = rng.standard_normal((2, 3, 64)).astype(np.float32)
    for found, matrix in zip(_run(model, x), points, strict=True):
        assert _error(found, x, matrix) < 1e-5


@pytest.mark.parametrize(
    ("bits", "block", "zero_points", "level", "dims", "k"),
    [
        pytest.param(4, 32, "none", 0, ["b", "s", 64], 64, id="symmetric 4 bits"),
        pytest.param(8, 32, "none", 4, ["b", "s", 64], 64, id="8 bits that may round activations"),
        pytest.param(4, 32, "float", 0, ["b", "s", 48], 48, id="a block cut short"),
        pytest.param(4, 32, "float", 0, None, 64, id="an input of unknown rank"),
        pytest.param(4, 32, "float", 0, ["rows", 64], 64, id="an input of rank 2"),
    ],
)
def test_other_matrices_stay_as_they_are(bits, block, zero_points, level, dims, k, rng):
    model = _model(dims, [Matrix(rng, k, 8, bits=bits, block=block, zero_points=zero_points)], level=level)
    assert speed_up_float_blocks(model.graph) == 0
    assert _kinds(model) == ["MatMulNBits"]


def _first(model: ir.Model, op_type: str) -> ir.Node:
    return next(n for n in model.graph if n.op_type == op_type)
