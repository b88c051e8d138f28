"""Values of a provider with a device of its own cross its border in lines of the plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graph_running import all_outputs, compiled
from onnxgen.graph.cpu.provider import CpuProvider
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ep.provider import Claim, Decline

F = np.float32


@dataclass(frozen=True)
class Boxed:
    """A value that nothing on the host can read by accident."""

    content: np.ndarray


class BoxProvider:
    """Runs Neg and Add on boxes."""

    name = "box"
    device = "box:0"

    def __init__(self) -> None:
        self.copies: list[str] = []

    def claim(self, node: NodeSpec) -> Claim | Decline:
        return Claim("boxed") if node.op_type in ("Neg", "Add") else Decline("has two operators")

    def compile(self, node: NodeSpec, claim: Claim) -> Kernel:
        compute = {"Neg": np.negative, "Add": np.add}[node.op_type]
        return Kernel(lambda *inputs: Boxed(compute(*(box.content for box in inputs))))

    def allocate(self, num_bytes: int) -> Any:
        raise AssertionError("only the host has arenas")

    def to_device(self, array: np.ndarray) -> Boxed:
        self.copies.append("in")
        return Boxed(array.copy())

    def to_host(self, value: Boxed) -> np.ndarray:
        self.copies.append("out")
        return value.content.copy()

    def synchronize(self) -> None: ...


MODEL = """
g (float[N] x, bool c) => (float[N] y, float[N] z) <float[1] w = {10}> {
    a = Neg (x)
    b = Add (a, w)
    r = Relu (b)
    s = Exp (b)
    y = Add (r, s)
    z = If (c) <
        then_branch = t () => (float[N] p) { p = Neg (a) },
        else_branch = e () => (float[N] q) { q = Relu (a) }
    >
}
"""


def test_values_cross_the_border_once_for_all_their_uses() -> None:
    box = BoxProvider()
    executable = compiled(MODEL, [box, CpuProvider()])
    assert box.copies == ["in"]  # the weight, when the model was compiled
    x = np.array([1, -2, 11], F)
    for condition in (True, False, True, True, True):
        box.copies.clear()
        y, z = all_outputs(executable, {"x": x, "c": np.array(condition)})
        b = 10 - x
        np.testing.assert_allclose(y, np.maximum(b, 0) + np.exp(b))
        np.testing.assert_array_equal(z, x if condition else np.maximum(-x, 0))
        # x in; b out; Relu and Exp in; y out; a out; then in and out again inside the branch that needs the device
        assert sorted(box.copies) == ["in"] * (4 if condition else 3) + ["out"] * (4 if condition else 3)


def test_the_plan_shows_the_copies() -> None:
    source = compiled(MODEL, [BoxProvider(), CpuProvider()]).source
    assert "= ToDevice_0(v0)  # onnxgen.ToDevice-1 'x' on box -> x on box:0: float[N]" in source
    assert "= ToHost_" in source
