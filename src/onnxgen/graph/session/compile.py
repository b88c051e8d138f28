"""From a loaded model to an executable."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxgen.errors import KernelError, OnnxgenError
from onnxgen.foundations.tracing import OFF, Tracer
from onnxgen.graph.costs.host import host_roofline
from onnxgen.graph.ep import host
from onnxgen.graph.ep.from_graph import captured_values, type_of
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ep.provider import HOST, Claim, ExecutionProvider
from onnxgen.graph.ir.attributes import tensor_array
from onnxgen.graph.ir.types import UNKNOWN
from onnxgen.graph.loader.load import LoadedGraph
from onnxgen.graph.optimizer.level import OptimizationLevel
from onnxgen.graph.optimizer.pipeline import optimize
from onnxgen.graph.optimizer.report import PassReport
from onnxgen.graph.placement import Placement, place
from onnxgen.graph.planner.prediction import ShapePredictor
from onnxgen.graph.planner.program import NamedValue
from onnxgen.graph.session.build_program import ProgramBuilder
from onnxgen.graph.session.control_flow import if_kernel, loop_kernel
from onnxgen.graph.session.executor import Executable
from onnxgen.graph.session.flex_attention import flex_attention_kernel
from onnxgen.graph.session.frames import ArenaBudget
from onnxgen.graph.session.preparation import Preparation
from onnxgen.graph.session.routine import Routine
from onnxgen.graph.session.scan import scan_kernel
from onnxgen.graph.session.sequence_map import sequence_map_kernel
from onnxgen.graph.shapes.infer import infer_shapes
from onnxgen.graph.shapes.report import InferenceReport

CONTROL_FLOW = {
    "If": if_kernel,
    "Loop": loop_kernel,
    "Scan": scan_kernel,
    "SequenceMap": sequence_map_kernel,
    "FlexAttention": flex_attention_kernel,
}


def compile_model(
    loaded: LoadedGraph,
    providers: Sequence[ExecutionProvider],
    *,
    level: OptimizationLevel = OptimizationLevel.ALL,
    trace: Tracer = OFF,
    memory_reuse: bool = True,
    prepare: bool = True,
) -> Executable:
    """Make a model ready to run. The model is changed: shapes are inferred and the optimizer rewrites it.

    Args:
        loaded: The model.
        providers: Who may run its nodes, in order of preference.
        level: How far the optimizer goes.
        trace: Gets a span for each step, with those of the optimizer's passes and of each node's compilation inside.
        memory_reuse: Whether values of different times share memory in prepared runs.
        prepare: Whether runs whose inputs have types that were seen before get memory planned ahead.

    Raises:
        UnsupportedOperatorError: when nobody runs some of the nodes, with every provider's reasons.
        InvalidGraphError: when inference finds the graph to break rules of the format.
    """
    model = loaded.model
    inputs, outputs = _declared(model.graph.inputs), _declared(model.graph.outputs)
    report, passes = _improved(model, providers, level, trace)
    with trace.span("placement", "compile", nodes=len(model.graph)):
        placement = place(model.graph, providers, opsets=model.graph.opset_imports, roofline=host_roofline())
    compiler = _Compiler(placement, providers, report.declared, trace, prepare=prepare, reuse=memory_reuse)
    with trace.span("kernels and plan", "compile"):
        routine = compiler.routine(model.graph, (), loaded.origin)
    return Executable(
        routine,
        inputs=inputs,
        outputs=[
            _known(value, computed) for value, computed in zip(outputs, model.graph.outputs, strict=True)
        ],
        defaults={
            value.name or "": tensor_array(value.const_value)
            for value in model.graph.inputs
            if value.const_value is not None
        },
        placement=placement,
        passes=passes,
    )


def _improved(
    model: ir.Model, providers: Sequence[ExecutionProvider], level: OptimizationLevel, trace: Tracer
) -> tuple[InferenceReport, tuple[PassReport, ...]]:
    with trace.span("shape inference", "compile"):
        report = infer_shapes(model)
    with trace.span("optimizer", "compile", level=level.name):
        passes = optimize(
            model,
            level=level,
            can_run=lambda spec: any(isinstance(p.claim(spec), Claim) for p in providers),
            trace=trace,
            evaluate=lambda spec, inputs: _evaluated(providers, spec, inputs),
        )
    if any(report.changed for report in passes):
        with trace.span("shape inference", "compile"):
            report = infer_shapes(model)
    return report, passes


def _evaluated(providers: Sequence[ExecutionProvider], spec: NodeSpec, inputs: list[Any]) -> Sequence[Any]:
    for provider in providers:
        claim = provider.claim(spec)
        if provider.device == HOST and isinstance(claim, Claim):
            with np.errstate(all="ignore"):
                result = provider.compile(spec, claim).run(*inputs)
            return result if len(spec.outputs) > 1 else (result,)
    raise LookupError(f"no provider of the host runs {spec}")


def _declared(values: Sequence[ir.Value]) -> list[NamedValue]:
    return [NamedValue(value.name or "", type_of(value)) for value in values]


def _known(declared: NamedValue, computed: ir.Value) -> NamedValue:
    """What the file says of an output, or what inference found where the file says nothing."""
    return NamedValue(declared.name, type_of(computed)) if declared.type == UNKNOWN else declared


class _Compiler:
    """Compiles the graphs of one model, inner ones first."""

    def __init__(
        self,
        placement: Placement,
        providers: Sequence[ExecutionProvider],
        untrusted: Collection[str],
        trace: Tracer,
        *,
        prepare: bool,
        reuse: bool,
    ) -> None:
        self._placement = placement
        self._untrusted = frozenset(untrusted)
        self._trace = trace
        self._prepare = prepare
        self._reuse = reuse
        self._budget = ArenaBudget()
        self._allocate = next((p.allocate for p in providers if p.device == HOST), host.allocate)

    def routine(
        self, graph: ir.Graph, outer: Sequence[ir.Value], name: str, *, lends: bool = False
    ) -> Routine:
        builder = ProgramBuilder(graph, outer)
        for node in graph:
            self._add(builder, node, name)
        program = builder.program(name)
        untrusted = [n for n, value in enumerate(program.values) if value.name in self._untrusted]
        predictor = ShapePredictor(program, untrusted=untrusted)
        preparation = None
        if self._prepare:
            preparation = Preparation(
                program, predictor, self._allocate, budget=self._budget, reuse=self._reuse
            )
        return Routine(program, predictor, preparation, lends=lends)

    def _add(self, builder: ProgramBuilder, node: ir.Node, path: str) -> None:
        assignment = self._placement.of(node)
        spec, provider = assignment.node_spec, assignment.provider
        if provider is None:
            outer = captured_values(node)
            where = f"{path}/{spec.name or spec.op_type}"
            graphs = {
                name: self.routine(attribute.as_graph(), outer, f"{where}.{name}", lends=True)
                for name, attribute in node.attributes.items()
                if attribute.type is ir.AttributeType.GRAPH
            }
            builder.add_control_flow(node, spec, CONTROL_FLOW[spec.op_type](spec, graphs))
            return
        with self._trace.span(str(spec), "compile", provider=provider.name, kernel=assignment.claim.kernel):
            kernel = _compiled(provider, spec, assignment.claim)
        builder.add(node, spec, kernel, provider)


def _compiled(provider: ExecutionProvider, node: NodeSpec, claim: Claim) -> Kernel:
    try:
        return provider.compile(node, claim)
    except OnnxgenError:
        raise
    except Exception as cause:
        raise KernelError(
            f"provider {provider.name!r} claimed {node} for its kernel {claim.kernel!r} and cannot compile it: "
            f"{type(cause).__name__}: {cause}"
        ) from cause
