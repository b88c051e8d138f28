"""One operator applied to arrays: by the cpu provider, by ONNX Runtime, and by onnx.reference."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from onnxgen.graph.cpu.provider import CpuProvider
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ep.provider import Claim
from onnxgen.graph.ir.schemas import newest_opset, since_version
from onnxgen.graph.ir.types import SequenceType, TensorType, ValueType, onnx_dtype

CPU = CpuProvider()


def type_of(value: Any) -> ValueType:
    """The type of a run-time value, as a session would tell it."""
    if isinstance(value, list):
        return SequenceType(type_of(value[0]))
    return TensorType(onnx_dtype(value.dtype), value.shape)


def node_spec(
    op_type: str,
    *inputs: Any,
    opset: int | None = None,
    domain: str = "",
    outputs: int | Sequence[bool] = 1,
    output_types: Sequence[ir.DataType] = (),
    constants: Sequence[int] = (),
    **attributes: Any,
) -> NodeSpec:
    """The node of those inputs.

    Args:
        op_type: The operator.
        *inputs: Arrays, lists of arrays, or None for inputs that are left out.
        opset: What the model imports of the domain; the newest by default.
        domain: Its domain.
        outputs: How many outputs are wanted, or one flag for each.
        output_types: Their element types where they matter.
        constants: Which inputs are known when the node is compiled.
        **attributes: Its attributes; lists become tuples.
    """
    opset = opset or (newest_opset(domain) if domain in ("", "ai.onnx.ml") else 1)
    wanted = [True] * outputs if isinstance(outputs, int) else list(outputs)
    types = [*output_types, *itertools.repeat(ir.DataType.UNDEFINED, len(wanted) - len(output_types))]
    return NodeSpec(
        domain,
        op_type,
        opset,
        since_version(domain, op_type, opset),
        {name: tuple(v) if isinstance(v, list) else v for name, v in attributes.items()},
        tuple(None if value is None else type_of(value) for value in inputs),
        tuple(TensorType(dtype) if want else None for want, dtype in zip(wanted, types, strict=True)),
        {index: inputs[index] for index in constants},
    )


def kernel_of(node: NodeSpec) -> Kernel:
    """The cpu provider's kernel; the test fails with its reason where it declines."""
    claim = CPU.claim(node)
    assert isinstance(claim, Claim), f"{node} declined: {claim.reason}"
    return CPU.compile(node, claim)


def run_cpu(op_type: str, *inputs: Any, **options: Any) -> Any:
    """What the cpu provider computes (a tuple for more than one output), after checking the kernel's promises.

    ``run`` leaves its inputs as they are and returns no undeclared view of them; ``into`` and every ``in_place`` pair
    give what ``run`` gives. Inputs are passed read-only.

    Args:
        op_type: The operator.
        *inputs: Its inputs.
        **options: See `node_spec`.
    """
    node = node_spec(op_type, *inputs, **options)
    kernel = kernel_of(node)
    given = [_read_only(value) for value in inputs]
    with np.errstate(all="ignore"):
        results = _many(kernel.run(*given), len(node.outputs))
        _check_aliases(kernel, given, results)
        if kernel.into is not None and all(isinstance(value, np.ndarray) for value in results):
            _check_into(kernel, given, results)
    return results[0] if len(results) == 1 else results


def run_ort(op_type: str, *inputs: Any, **options: Any) -> Any:
    """What ONNX Runtime computes for a model of that one node; optimizations are off."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.log_severity_level = 4
    model = one_node_model(op_type, *inputs, **options)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), settings, providers=["CPUExecutionProvider"]
    )
    return _only(session.run(None, _feeds(inputs, options.get("constants", ()))))


def run_reference(op_type: str, *inputs: Any, **options: Any) -> Any:
    """What onnx.reference computes for a model of that one node."""
    with np.errstate(all="ignore"):
        session = ReferenceEvaluator(one_node_model(op_type, *inputs, **options))
        return _only(session.run(None, _feeds(inputs, options.get("constants", ()))))


def one_node_model(
    op_type: str,
    *inputs: Any,
    opset: int | None = None,
    domain: str = "",
    outputs: int | Sequence[bool] = 1,
    output_types: Sequence[ir.DataType] = (),
    constants: Sequence[int] = (),
    **attributes: Any,
) -> onnx.ModelProto:
    """The model of `node_spec`'s node; inputs are ``x0``, ``x1``, ..., outputs ``y0``, ...

    Output types are left to the runtime where ``output_types`` does not give them. ``constants`` become initializers.
    """
    opset = opset or newest_opset(domain if domain in ("", "ai.onnx.ml") else "")
    wanted = [True] * outputs if isinstance(outputs, int) else list(outputs)
    names = ["" if value is None else f"x{index}" for index, value in enumerate(inputs)]
    values = {name: value for name, value in zip(names, inputs, strict=True) if name}
    results = [f"y{index}" if want else "" for index, want in enumerate(wanted)]
    held = {f"x{index}" for index in constants}
    node = onnx.helper.make_node(
        op_type, names, results, domain=domain, **{k: _proto_attribute(v) for k, v in attributes.items()}
    )
    graph = onnx.helper.make_graph(
        [node],
        "one_node",
        [onnx.helper.make_value_info(k, _proto_type(v)) for k, v in values.items() if k not in held],
        [
            onnx.helper.make_tensor_value_info(name, output_types[index].value, None)
            if index < len(output_types)
            else onnx.ValueInfoProto(name=name)
            for index, name in enumerate(results)
            if name
        ],
        [onnx.numpy_helper.from_array(values[name], name) for name in sorted(held)],
    )
    imports = [onnx.helper.make_opsetid("", opset if not domain else newest_opset())]
    if domain:
        imports.append(onnx.helper.make_opsetid(domain, opset if domain == "ai.onnx.ml" else 1))
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)


def assert_same(got: Any, want: Any, *, rtol: float = 1e-5, atol: float = 1e-6, types: bool = True) -> None:
    """Values of the same shape and element type, equal within tolerance; NaN equals NaN."""
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            assert_same(one, other, rtol=rtol, atol=atol, types=types)
        return
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, f"shape {got.shape} where {want.shape} was expected"
    assert not types or got.dtype == want.dtype, f"{got.dtype} where {want.dtype} was expected"
    if want.dtype.kind in "OU":  # strings
        assert got.tolist() == want.tolist()
    elif want.dtype.kind in "biuc":
        np.testing.assert_array_equal(got, want)
    else:
        wide = np.float64 if want.dtype.kind == "V" or want.dtype.itemsize < 8 else want.dtype
        np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=atol)


def _check_aliases(kernel: Kernel, given: Sequence[Any], results: Sequence[Any]) -> None:
    for (out, result), (index, value) in itertools.product(enumerate(results), enumerate(given)):
        if isinstance(result, np.ndarray) and isinstance(value, np.ndarray) and result.size:
            aliased = np.may_share_memory(result, value) and (out, index) not in kernel.may_alias
            assert not aliased, f"output {out} is an undeclared view of input {index}"


def _check_into(kernel: Kernel, given: Sequence[Any], results: Sequence[np.ndarray]) -> None:
    assert kernel.into is not None
    buffers = [_filled_like(value) for value in results]
    kernel.into(*given, *buffers)
    assert_same(buffers, list(results))
    for out, index in kernel.in_place:
        value = given[index] if index < len(given) else None
        result = results[out]
        if value is None or value.shape != result.shape or value.dtype != result.dtype:
            continue
        shared = value.copy(order="C")
        inputs = [shared if position == index else other for position, other in enumerate(given)]
        buffers = [shared if position == out else _filled_like(v) for position, v in enumerate(results)]
        kernel.into(*inputs, *buffers)
        assert_same(buffers, list(results))


def _filled_like(value: np.ndarray) -> np.ndarray:
    buffer = np.empty(value.shape, value.dtype)
    if value.dtype != object:
        buffer.reshape(-1).view(np.uint8)[...] = 0x55  # what a forgotten element would show
    return buffer


def _read_only(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.flags.writeable = False
    return view


def _many(result: Any, count: int) -> tuple[Any, ...]:
    results = result if count > 1 else (result,)
    assert isinstance(results, tuple) and len(results) == count, f"{count} outputs were expected"
    for value in results:
        assert value is None or isinstance(value, (np.ndarray, list, dict)), f"an output is a {type(value)}"
    return results


def _only(results: Sequence[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


def _feeds(inputs: Sequence[Any], held: Sequence[int]) -> Mapping[str, Any]:
    return {f"x{i}": v for i, v in enumerate(inputs) if v is not None and i not in held}


def _proto_type(value: Any) -> onnx.TypeProto:
    if isinstance(value, list):
        return onnx.helper.make_sequence_type_proto(_proto_type(value[0]))
    return onnx.helper.make_tensor_type_proto(onnx_dtype(value.dtype).value, value.shape)


def _proto_attribute(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return onnx.numpy_helper.from_array(value)
    return list(value) if isinstance(value, tuple) else value


def fresh_rng() -> np.random.Generator:
    """A generator of a seed that nobody chose; pytest shows the seed when the test fails."""
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print(f"random data of seed {seed}")
    return np.random.default_rng(seed)
