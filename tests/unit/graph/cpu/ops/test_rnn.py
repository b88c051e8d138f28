"""Recurrent networks against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import InvalidGraphError

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
NUM_ACTIVATIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}


def _case(rng, op_type, directions, *, bias=True, lengths=False, states=True):
    steps, batch, features, hidden = rng.integers(1, 6, 4)
    gates = GATES[op_type] * hidden

    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    args = [
        normal(steps, batch, features),
        normal(directions, gates, features),
        normal(directions, gates, hidden),
    ]
    args.append(normal(directions, 2 * gates) if bias else None)
    args.append(rng.integers(1, steps + 1, batch).astype(np.int32) if lengths else None)
    args += [normal(directions, batch, hidden) if states else None] * (2 if op_type == "LSTM" else 1)
    return args, {"hidden_size": int(hidden), "outputs": 3 if op_type == "LSTM" else 2}


def _check(op_type, args, options):
    while args[-1] is None:
        args.pop()
    got = run_cpu(op_type, *args, opset=14, **options)
    assert_same(got, run_ort(op_type, *args, opset=14, **options), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("optional", [{}, {"bias": False, "states": False}, {"lengths": True}])
def test_directions_lengths_and_what_may_be_left_out(op_type, direction, optional):
    rng = fresh_rng()
    for _ in range(3):
        args, options = _case(rng, op_type, 1 + (direction == "bidirectional"), **optional)
        _check(op_type, args, options | {"direction": direction})


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("batch", [1, 3, 19])
def test_states_wider_than_registers_and_weights_of_the_model(op_type, batch):
    rng = fresh_rng()
    gates, hidden = GATES[op_type], int(rng.integers(30, 70))
    shapes = [(6, batch, 21), (2, gates * hidden, 21), (2, gates * hidden, hidden), (2, 2 * gates * hidden)]
    args = [0.3 * rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    options = {"hidden_size": hidden, "direction": "bidirectional", "constants": [1, 2, 3], "outputs": 2}
    _check(op_type, [*args, rng.integers(1, 7, batch).astype(np.int32)], options)


@pytest.mark.parametrize("op_type", GATES)
def test_float64_stays_float64(op_type):
    args, options = _case(fresh_rng(), op_type, 2, lengths=True)
    options |= {"direction": "bidirectional"}
    wide = [arg.astype(np.float64) if arg is not None and arg.dtype == np.float32 else arg for arg in args]
    got = run_cpu(op_type, *wide, **options)
    assert got[0].dtype == np.float64
    assert_same(got, run_cpu(op_type, *args, **options), rtol=1e-4, atol=1e-5, types=False)


@pytest.mark.parametrize("op_type", GATES)
def test_clip(op_type):
    args, options = _case(fresh_rng(), op_type, 1)
    _check(op_type, args, options | {"clip": 0.3})


def test_gru_may_reset_after_the_recurrent_weights():
    args, options = _case(fresh_rng(), "GRU", 2)
    _check("GRU", args, options | {"linear_before_reset": 1, "direction": "bidirectional"})


@pytest.mark.parametrize("coupled", [0, 1])
def test_lstm_peepholes_and_coupled_forget_gate(coupled):
    rng = fresh_rng()
    args, options = _case(rng, "LSTM", 2, lengths=True)
    peepholes = rng.standard_normal((2, 3 * options["hidden_size"])).astype(np.float32)
    _check("LSTM", [*args, peepholes], options | {"input_forget": coupled, "direction": "bidirectional"})


@pytest.mark.parametrize("name", ["Relu", "Tanh", "Sigmoid", "Softsign", "Softplus", "LeakyRelu", "Elu", "ThresholdedRelu", "Affine", "ScaledTanh", "HardSigmoid"])  # fmt: skip
def test_activations_take_their_parameters_in_order(name):
    args, options = _case(fresh_rng(), "RNN", 2, states=False)
    # States that grow would make ONNX Runtime's softplus overflow.
    args = [arg / 2 if arg is not None and arg.dtype == np.float32 else arg for arg in args]
    options |= {"activations": [name, "Affine"], "direction": "bidirectional"}
    takes_alpha = name not in ("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus")
    takes_beta = name in ("Affine", "ScaledTanh", "HardSigmoid")
    options["activation_alpha"] = [0.3] * takes_alpha + [0.6]
    options["activation_beta"] = [0.2] * takes_beta + [0.1]
    _check("RNN", args, options)


@pytest.mark.parametrize("op_type", GATES)
def test_layout_1_has_the_batch_first(op_type):
    args, options = _case(fresh_rng(), op_type, 2)
    options |= {"direction": "bidirectional"}
    y, *states = run_cpu(op_type, *args, **options)
    first = [args[0].swapaxes(0, 1), *args[1:5], *(state.swapaxes(0, 1) for state in args[5:])]
    got = run_cpu(op_type, *first, layout=1, **options)
    assert_same(got, (y.transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in states)))


def test_unwanted_outputs_are_none():
    args, options = _case(fresh_rng(), "LSTM", 1)
    y, h, c = run_cpu("LSTM", *args, **options | {"outputs": [False, True, False]})
    assert y is None and c is None and h.shape[0] == 1


def test_float16_is_computed_in_float32():
    args, options = _case(fresh_rng(), "GRU", 1)
    halves = [arg if arg is None else arg.astype(np.float16) for arg in args]
    wide = run_cpu("GRU", *[arg if arg is None else arg.astype(np.float32) for arg in halves], **options)
    assert_same(run_cpu("GRU", *halves, **options), tuple(value.astype(np.float16) for value in wide))


@pytest.mark.parametrize(("attributes", "message"), [
    ({"direction": "backward"}, "direction 'backward'; known are forward"),
    ({"activations": ["Swish"]}, "activation 'Swish'; known are relu"),
    ({"activations": ["Tanh"], "direction": "bidirectional"}, "has 1 activations; 2 directions of it need 2"),
])  # fmt: skip
def test_what_is_wrong_is_told(attributes, message):
    with pytest.raises(InvalidGraphError, match=message):
        kernel_of(node_spec("RNN", *[np.zeros((1, 1, 1), np.float32)] * 3, **attributes))


def _bytes(rng, dtype, *shape):
    info = np.iinfo(dtype)
    return np.asarray(rng.integers(info.min, info.max + 1, shape), dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_lstm_with_quantized_weights(dtype, direction):
    rng = fresh_rng()
    directions, steps, batch, features, hidden = 1 + (direction == "bidirectional"), 4, 2, 3, 5

    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    args = (
        normal(steps, batch, features), _bytes(rng, dtype, directions, features, 4 * hidden),
        _bytes(rng, dtype, directions, hidden, 4 * hidden), normal(directions, 8 * hidden),
        np.array([3, 4], np.int32), normal(directions, batch, hidden), normal(directions, batch, hidden), None,
        np.full(directions, 0.01, np.float32), np.full(directions, 5, dtype),
        np.full(directions, 0.01, np.float32), np.full(directions, 3, dtype),
    )  # fmt: skip
    options = {
        "outputs": 3,
        "direction": direction,
        "hidden_size": hidden,
        "constants": (1, 2),
        "domain": "com.microsoft",
    }
    # A hidden state that falls on the other side of a rounding moves the result by one step of 1/255.
    got = run_cpu("DynamicQuantizeLSTM", *args, **options)
    assert_same(got, run_ort("DynamicQuantizeLSTM", *args, **options), rtol=0.05, atol=0.1)
