"""The reference provider against ONNX Runtime, or else the cpu provider, in every version of the operators."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kernel_runs import assert_same, node_spec, run_cpu, run_ort
from old_operators import OperatorCall, old_calls
from onnxgen.graph.ep.provider import Claim
from onnxgen.graph.reference.provider import ReferenceProvider

SEED = int(np.random.SeedSequence().entropy % 2**32)
BY_OPERATOR = {
    op_type: list(calls)
    for op_type, calls in itertools.groupby(
        sorted(old_calls(np.random.default_rng(SEED)), key=lambda call: (call.op_type, call.version)),
        key=lambda call: call.op_type,
    )
}
REFERENCE = ReferenceProvider()


@pytest.mark.parametrize("op_type", BY_OPERATOR)
def test_every_version_gives_what_others_give(op_type):
    for call in BY_OPERATOR[op_type]:
        options = {"opset": call.version, "outputs": call.outputs, **call.attributes}
        try:
            assert_same(_reference(call), _others(call, options), rtol=1e-4, atol=1e-5)
        except AssertionError as difference:
            raise AssertionError(f"{call}, seed {SEED}: {difference}") from difference


def _reference(call: OperatorCall):
    node = node_spec(call.op_type, *call.inputs, opset=call.version, outputs=call.outputs, **call.attributes)
    claim = REFERENCE.claim(node)
    assert isinstance(claim, Claim), claim.reason
    return REFERENCE.compile(node, claim).run(*call.inputs)


def _others(call: OperatorCall, options):
    """ONNX Runtime, which has no kernels for the oldest versions and the newest operators; cpu knows those."""
    try:
        return run_ort(call.op_type, *call.inputs, **options)
    except Exception:  # noqa: BLE001 - its errors have classes of their own, by kind of failure
        return run_cpu(call.op_type, *call.inputs, **options)


def test_clipping_leaves_the_cell_of_an_lstm_alone():
    rng = np.random.default_rng(SEED)
    x = rng.normal(size=(5, 3, 4)).astype(np.float32)
    w, r, b = (rng.normal(size=size).astype(np.float32) for size in ((1, 12, 4), (1, 12, 3), (1, 24)))
    initial = (
        np.zeros((1, 3, 3), np.float32),
        np.full((1, 3, 3), 2, np.float32),
    )  # far beyond what clips the gates
    call = OperatorCall("LSTM", 14, (x, w, r, b, None, *initial), 3, {"hidden_size": 3, "clip": 0.2})
    options = {"opset": 14, "outputs": 3, **call.attributes}
    assert_same(_reference(call), run_ort("LSTM", *call.inputs, **options), rtol=1e-4, atol=1e-5)
    assert_same(_reference(call), run_cpu("LSTM", *call.inputs, **options), rtol=1e-4, atol=1e-5)
