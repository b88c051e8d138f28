from graph_passes import anything_runs, check_integrity, listing, parse, reference
from onnxgen.foundations.tracing import TraceRecorder
from onnxgen.graph.optimizer import OptimizationLevel, PassReport, optimize

TEXT = """g (float[3, 4] x) => (float[3, 4] y) <float[1] two = {2}> {
    s = Shape(x)
    a = Reshape(x, s)
    b = Mul(two, two)
    c = Identity(a)
    unused = Neg(c)
    y = Mul(c, b)
}"""


def test_disabled_means_nothing():
    model = parse(TEXT)
    before = listing(model)
    assert optimize(model, level=OptimizationLevel.DISABLED, can_run=anything_runs, evaluate=reference) == ()
    assert listing(model) == before


def test_levels_are_ordered():
    assert list(OptimizationLevel) == sorted(OptimizationLevel)


def test_passes_repeat_until_nothing_is_left_and_say_what_they_did():
    model = parse(TEXT)
    reports = optimize(model, level=OptimizationLevel.BASIC, can_run=anything_runs, evaluate=reference)
    check_integrity(model)
    assert listing(model) == ["y = Mul(x, [4.0])"]
    by_name = {report.name: report for report in reports}
    assert by_name["shape_folding"] == PassReport("shape_folding", True, "1 shapes folded")
    assert by_name["constant_folding"].did == "1 nodes folded, 4 bytes of results"
    assert by_name["duplicate_code"] == PassReport("duplicate_code", False, "")


def test_the_trace_has_a_span_for_each_pass_with_what_it_did():
    trace = TraceRecorder()
    optimize(parse(TEXT), level=OptimizationLevel.BASIC, can_run=anything_runs, trace=trace)
    spans = [e for e in trace.events() if e["ph"] == "X" and e["cat"] == "optimizer"]
    assert {"did": {"shapes folded": 1}} in [e["args"] for e in spans if e["name"] == "shape_folding"]


def test_a_second_time_finds_nothing():
    model = parse(TEXT)
    optimize(model, level=OptimizationLevel.ALL, can_run=anything_runs, evaluate=reference)
    again = optimize(model, level=OptimizationLevel.ALL, can_run=anything_runs, evaluate=reference)
    assert not any(report.changed for report in again)
