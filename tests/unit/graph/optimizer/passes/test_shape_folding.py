import pytest

from graph_passes import check
from onnxgen.graph.optimizer.passes.shape_folding import SHAPE_FOLDING


@pytest.mark.parametrize(
    ("node", "result"),
    [("Shape (x)", "[3, 4]"), ("Shape <start = 1> (x)", "[4]"), ("Shape <start = -2, end = -1> (x)", "[3]")],
)
def test_known_sizes_are_constants(node, result):
    check(
        f"g (float[3, 4] x, int64[1] k) => (int64[K] y) {{ s = {node} y = Add(s, k) }}",
        SHAPE_FOLDING,
        [f"y = Add({result}, k)"],
    )


def test_the_number_of_elements_is_a_constant():
    check(
        "g (float[3, 4] x, int64[1] k) => (int64[1] y) { s = Size(x) y = Add(s, k) }",
        SHAPE_FOLDING,
        ["y = Add(12, k)"],
    )


def test_one_known_size_of_many():
    check(
        """g (float[N, 4, M] x, int64[1] k) => (int64[1] y) <int64 one = {1}, int64[1] minus2 = {-2}> {
            s = Shape(x)
            a = Gather(s, one)
            b = Gather(s, minus2)
            c = Add(a, b)
            y = Add(c, k)
        }""",
        SHAPE_FOLDING,
        ["t0 = Add(4, [4])", "y = Add(t0, k)"],
    )


def test_a_slice_of_the_shape():
    check(
        """g (float[N, 4, 5] x, int64[2] k) => (int64[2] y) <int64[1] one = {1}, int64[1] end = {9223372036854775807}> {
            s = Shape(x)
            a = Slice(s, one, end)
            y = Add(a, k)
        }""",
        SHAPE_FOLDING,
        ["y = Add([4, 5], k)"],
    )


def test_symbols_are_not_sizes():
    check(
        """g (float[N, N] x) => (int64[2] s, int64 a, int64 z) <int64 one = {1}> {
            s = Shape(x)
            a = Gather(s, one)
            z = Size(x)
        }""",
        SHAPE_FOLDING,
        None,
    )
