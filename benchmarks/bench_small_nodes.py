"""What a node costs beside its kernel: a chain of small operators, against ONNX Runtime in the same run.

    python benchmarks/bench_small_nodes.py [--nodes 200] [--width 16] [--seconds 0.5]

Prints the time of a node for both, and our own overhead: a run's time less that of its kernels, called one after the
other from a loop over their arguments, by the number of nodes. Contestants take turns, and the best round of each counts:
the rest is other people's work.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

from onnxgen.graph.cpu.provider import CpuProvider
from onnxgen.graph.loader import load_graph
from onnxgen.graph.optimizer.level import OptimizationLevel
from onnxgen.graph.session.compile import compile_model

OPERATORS = ("Add", "Mul", "Relu")


def chain(nodes: int, width: int) -> onnx.ModelProto:
    """``Add``, ``Mul`` and ``Relu`` in turn over ``width`` floats, every second operand the chain's input."""
    made = []
    for index in range(nodes):
        operator = OPERATORS[index % len(OPERATORS)]
        inputs = [f"v{index}"] if operator == "Relu" else [f"v{index}", "v0" if index % 2 else "w"]
        made.append(helper.make_node(operator, inputs, [f"v{index + 1}"], name=f"node{index}"))
    vector = [onnx.TensorProto.FLOAT, [width]]
    graph = helper.make_graph(
        made,
        "chain",
        [helper.make_tensor_value_info("v0", *vector)],
        [helper.make_tensor_value_info(f"v{nodes}", *vector)],
        [helper.make_tensor("w", onnx.TensorProto.FLOAT, [width], np.linspace(0.5, 1.0, width))],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def kernels_alone(model: onnx.ModelProto, width: int) -> Callable[[], None]:
    """The same kernels on the same kind of arrays, without a plan."""
    executable = compile_model(load_graph(model), [CpuProvider()], level=OptimizationLevel.DISABLED)
    arrays = [np.ones(width, np.float32) for _ in range(3)]
    calls = []
    for _, assignment in executable.placement:
        kernel = assignment.provider.compile(assignment.node_spec, assignment.claim)
        calls.append((kernel.into, (*arrays[: len(assignment.node_spec.inputs)], arrays[2])))

    def run() -> None:
        for into, arguments in calls:
            into(*arguments)

    return run


def best_seconds(contestants: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """The shortest time of one call of each, in rounds of all of them."""
    best = dict.fromkeys(contestants, float("inf"))
    until = time.perf_counter() + seconds * len(contestants)
    while time.perf_counter() < until:
        for name, call in contestants.items():
            begin = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - begin)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    model = chain(options.nodes, options.width)
    output = [f"v{options.nodes}"]
    feeds = {"v0": np.linspace(-1, 1, options.width, dtype=np.float32)}
    ours = compile_model(load_graph(model), [CpuProvider()], level=OptimizationLevel.DISABLED)
    settings = ort.SessionOptions()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.intra_op_num_threads = 1
    theirs = ort.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    for _ in range(3):  # the first runs of a signature are not prepared yet
        np.testing.assert_allclose(ours.run(feeds, output)[0], theirs.run(output, feeds)[0], rtol=1e-6)
    heap = compile_model(load_graph(model), [CpuProvider()], level=OptimizationLevel.DISABLED, prepare=False)
    best = best_seconds(
        {
            "onnxgen, prepared": lambda: ours.run(feeds, output),
            "onnxgen, first runs": lambda: heap.run(feeds, output),
            "onnxgen, kernels alone": kernels_alone(model, options.width),
            "ONNX Runtime": lambda: theirs.run(output, feeds),
        },
        options.seconds,
    )
    print(f"chain of {options.nodes} nodes over {options.width} floats, microseconds a node")
    for name, seconds in best.items():
        print(f"  {name:<24}{seconds / options.nodes * 1e6:8.3f}")
    overhead = (best["onnxgen, prepared"] - best["onnxgen, kernels alone"]) / options.nodes * 1e6
    print(f"  {'our overhead':<24}{overhead:8.3f}")
    print(f"  {'to ONNX Runtime':<24}{best['onnxgen, prepared'] / best['ONNX Runtime']:8.2f} times its time")


if __name__ == "__main__":
    main()
