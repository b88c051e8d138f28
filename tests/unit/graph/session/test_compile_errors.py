import onnx.parser
import pytest

from onnxgen import InferenceSession
from onnxgen.errors import KernelError
from onnxgen.graph.cpu.provider import CpuProvider

MODEL = '<ir_version: 8, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { y = Relu(x) }'


class Boastful(CpuProvider):
    """Claims what it cannot compile."""

    name = "boastful"

    def compile(self, node, claim):
        raise ZeroDivisionError("no such luck")


def test_a_provider_that_breaks_its_promise_is_named():
    with pytest.raises(KernelError, match=r"'boastful' claimed Relu-14.*ZeroDivisionError: no such luck"):
        InferenceSession(onnx.parser.parse_model(MODEL).SerializeToString(), providers=[Boastful()])
