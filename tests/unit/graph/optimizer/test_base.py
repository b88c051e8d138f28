from graph_passes import apply, check, listing, parse
from onnxgen.graph.optimizer.passes.gemm import GEMM
from onnxgen.graph.optimizer.passes.reshapes import RESHAPES


def test_nodes_of_another_opset_are_unknown_to_rules():
    """Functions may import an opset of their own; their nodes mean what that one says."""
    text = """g (float[2, 3] x) => (float[2, 3] y) <int64[1] a = {0}> {
        u = Unsqueeze(x, a)
        s = Squeeze(u, a)
        y = Neg(s)
    }"""
    for versioned in ("Unsqueeze", "Squeeze"):
        model = parse(text)
        (node,) = [node for node in model.graph if node.op_type == versioned]
        node.version = 13
        assert apply(model, RESHAPES) == ""
        node.version = None
        apply(model, RESHAPES)
        assert listing(model) == ["y = Neg(x)"]


def test_what_a_branch_uses_stays_outside_of_it():
    """Inside a loop it would run in every trip."""
    check(
        """g (bool c, float[N, 3] a, float[3, 4] b, float[4] d) => (float[N, 4] y) {
            p = MatMul(a, b)
            y = If(c) <
                then_branch = t () => (float[N, 4] q) { q = Add(p, d) },
                else_branch = f () => (float[N, 4] r) { r = Neg(d) }
            >
        }""".replace("r = Neg(d)", "s = MatMul(a, b) r = Neg(s)"),
        GEMM,
        None,
    )
