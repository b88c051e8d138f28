"""Single operators of the native runtime against ONNX Runtime, in the same run.

    python benchmarks/bench_cpu_kernels.py [--only REGEX] [--threads 2] [--rounds 7] [--json FILE]

Each case is a model of one node, run through our session (prepared, as a model's nodes are) and through ONNX Runtime.
Contestants take turns in short bursts with a rest after each, because worker threads of BLAS and of ONNX Runtime spin for
a while after their work. Prints the median over the rounds of each burst's median, their ratio, and the ratio of the
shortest times, which a loaded machine disturbs least.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from measuring import conditions, save
from onnx import helper, numpy_helper

from onnxgen.graph.session import InferenceSession

BURST_S, REST_S = 0.04, 0.03


@dataclass(frozen=True)
class Case:
    """A node: shapes of its inputs (or arrays), which of them are weights, and its attributes."""

    op_type: str
    label: str
    inputs: tuple[Any, ...]
    weights: tuple[int, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    domain: str = ""
    opset: int = 20


def _conv(label: str, x: tuple[int, ...], w: tuple[int, ...], **attributes: Any) -> Case:
    return Case("Conv", label, (x, w, (w[0],)), (1, 2), attributes)


def _recurrent(
    op_type: str, label: str, steps: int, batch: int, features: int, hidden: int, **more: Any
) -> Case:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op_type] * hidden
    d = 2 if more.get("direction") == "bidirectional" else 1
    shapes = ((steps, batch, features), (d, gates, features), (d, gates, hidden), (d, 2 * gates))
    return Case(op_type, label, shapes, (1, 2, 3), {"hidden_size": hidden, **more})


def _grid(batch: int, height: int, width: int) -> np.ndarray:
    return np.random.default_rng(1).uniform(-1, 1, (batch, height, width, 2)).astype(np.float32)


def cases() -> Iterator[Case]:
    pad1, pad3 = {"pads": [1, 1, 1, 1]}, {"pads": [3, 3, 3, 3]}
    yield _conv("3x3 64>64 56x56", (1, 64, 56, 56), (64, 64, 3, 3), **pad1)
    yield _conv("3x3 256>256 14x14", (1, 256, 14, 14), (256, 256, 3, 3), **pad1)
    yield _conv("3x3 512>512 7x7", (1, 512, 7, 7), (512, 512, 3, 3), **pad1)
    yield _conv("3x3/2 64>128 56x56", (1, 64, 56, 56), (128, 64, 3, 3), strides=[2, 2], **pad1)
    yield _conv("3x3 16>32 160x160", (1, 16, 160, 160), (32, 16, 3, 3), **pad1)
    yield _conv("7x7/2 3>64 224x224", (1, 3, 224, 224), (64, 3, 7, 7), strides=[2, 2], **pad3)
    yield _conv("3x3/2 3>16 320x320", (1, 3, 320, 320), (16, 3, 3, 3), strides=[2, 2], **pad1)
    yield _conv("1x1 256>64 56x56", (1, 256, 56, 56), (64, 256, 1, 1))
    yield _conv("1x1 96>24 20x20", (1, 96, 20, 20), (24, 96, 1, 1))
    yield _conv("3x3 2 groups 64>64 28x28", (1, 64, 28, 28), (64, 32, 3, 3), group=2, **pad1)
    yield _conv("1d k9 128>128 400", (1, 128, 400), (128, 128, 9), pads=[4, 4])
    yield _conv("1d k16/8 1>64 16000", (1, 1, 16000), (64, 1, 16), strides=[8])
    yield _conv("3d 3x3x3 8>16 16^3", (1, 8, 16, 16, 16), (16, 8, 3, 3, 3), pads=[1] * 6)
    yield _conv("depthwise 3x3 128 56x56", (1, 128, 56, 56), (128, 1, 3, 3), group=128, **pad1)
    yield _conv(
        "depthwise 3x3/2 96 112x112", (1, 96, 112, 112), (96, 1, 3, 3), group=96, strides=[2, 2], **pad1
    )
    yield _conv("depthwise 5x5 240 14x14", (1, 240, 14, 14), (240, 1, 5, 5), group=240, pads=[2] * 4)
    yield _conv("depthwise 1d k31 256 200", (1, 256, 200), (256, 1, 31), group=256, pads=[15, 15])
    yield Case(
        "ConvTranspose",
        "2x2/2 64>64 80x80",
        ((1, 64, 80, 80), (64, 64, 2, 2), (64,)),
        (1, 2),
        {"strides": [2, 2]},
    )
    yield Case(
        "ConvTranspose",
        "4x4/2 128>64 28x28",
        ((1, 128, 28, 28), (128, 64, 4, 4), (64,)),
        (1, 2),
        {"strides": [2, 2], **pad1},
    )
    for op_type in ("MaxPool", "AveragePool"):
        yield Case(
            op_type,
            "3x3/2 64 112x112",
            ((1, 64, 112, 112),),
            (),
            {"kernel_shape": [3, 3], "strides": [2, 2], **pad1},
        )
        yield Case(
            op_type, "2x2/2 64 80x80", ((1, 64, 80, 80),), (), {"kernel_shape": [2, 2], "strides": [2, 2]}
        )
        yield Case(
            op_type, "5x5 128 20x20", ((1, 128, 20, 20),), (), {"kernel_shape": [5, 5], "pads": [2] * 4}
        )
    yield Case("GlobalAveragePool", "512 7x7", ((1, 512, 7, 7),))
    yield Case("GlobalAveragePool", "64 56x56", ((1, 64, 56, 56),))
    yield _recurrent("LSTM", "100 steps, batch 1, 128>128", 100, 1, 128, 128)
    yield _recurrent("LSTM", "80 steps, batch 4, 96>48 both", 80, 4, 96, 48, direction="bidirectional")
    yield _recurrent("LSTM", "1 step, batch 1, 128>128", 1, 1, 128, 128)
    yield _recurrent("LSTM", "50 steps, batch 32, 256>256", 50, 32, 256, 256)
    yield _recurrent("GRU", "100 steps, batch 1, 128>128", 100, 1, 128, 128)
    yield _recurrent("GRU", "40 steps, batch 8, 64>256 linear", 40, 8, 64, 256, linear_before_reset=1)
    yield _recurrent("RNN", "100 steps, batch 2, 64>64", 100, 2, 64, 64)
    yield Case("Softmax", "12x128x128", ((12, 128, 128),), (), {"axis": -1})
    yield Case("Softmax", "1x1000", ((1, 1000),), (), {"axis": -1})
    yield Case("Softmax", "40x6625", ((40, 6625),), (), {"axis": -1})
    yield Case("Softmax", "1x64x40x40 axis 1", ((1, 64, 40, 40),), (), {"axis": 1})
    yield Case("LogSoftmax", "40x6625", ((40, 6625),), (), {"axis": -1})
    yield Case("LayerNormalization", "128x384", ((1, 128, 384), (384,), (384,)), (1, 2), {"axis": -1})
    yield Case("LayerNormalization", "1x768", ((1, 768), (768,), (768,)), (1, 2), {"axis": -1})
    yield Case("InstanceNormalization", "64 56x56", ((1, 64, 56, 56), (64,), (64,)), (1, 2))
    yield Case(
        "BatchNormalization",
        "64 56x56",
        ((1, 64, 56, 56), (64,), (64,), (64,), np.ones(64, np.float32)),
        (1, 2, 3, 4),
    )
    yield Case(
        "SkipLayerNormalization",
        "128x384",
        ((1, 128, 384), (1, 128, 384), (384,), (384,)),
        (2, 3),
        {},
        "com.microsoft",
    )
    yield Case("Gelu", "128x1536", ((1, 128, 1536),))
    yield Case("FastGelu", "128x1536", ((1, 128, 1536),), (), {}, "com.microsoft")
    for op_type in ("Sigmoid", "Tanh", "Erf", "HardSwish", "Relu", "Exp"):
        yield Case(op_type, "64x80x80", ((1, 64, 80, 80),))
    yield Case("Cast", "to float16, 128x1536", ((128, 1536),), (), {"to": onnx.TensorProto.FLOAT16})
    yield Case(
        "Cast",
        "from float16, 128x1536",
        (np.ones((128, 1536), np.float16),),
        (),
        {"to": onnx.TensorProto.FLOAT},
    )
    yield Case("Cast", "to bfloat16, 128x1536", ((128, 1536),), (), {"to": onnx.TensorProto.BFLOAT16})
    linear = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    double = np.array([1, 1, 2, 2], np.float32)
    yield Case("Resize", "nearest x2, 64 40x40", ((1, 64, 40, 40), None, double), (2,), nearest)
    yield Case("Resize", "linear x2, 64 40x40", ((1, 64, 40, 40), None, double), (2,), linear)
    yield Case(
        "Resize",
        "linear 3 480x640 > 224x224",
        ((1, 3, 480, 640), None, None, np.array([1, 3, 224, 224])),
        (3,),
        linear,
    )
    yield Case(
        "Resize", "cubic x2, 16 40x40", ((1, 16, 40, 40), None, double), (2,), {**linear, "mode": "cubic"}
    )
    yield Case("GridSample", "linear 16 64x64", ((1, 16, 64, 64), _grid(1, 64, 64)), (), {"mode": "linear"})
    yield Case("GridSample", "cubic 16 64x64", ((1, 16, 64, 64), _grid(1, 64, 64)), (), {"mode": "cubic"})
    scale, zero = np.array(0.02, np.float32), np.array(128, np.uint8)
    yield Case("QuantizeLinear", "128x1536", ((128, 1536), scale, zero), (1, 2))
    yield Case("DequantizeLinear", "128x1536", (np.ones((128, 1536), np.uint8), scale, zero), (1, 2))
    yield Case("MatMul", "128x384 384x1536", ((1, 128, 384), (384, 1536)), (1,))
    yield Case("ReduceMean", "64 56x56 axes 2,3", ((1, 64, 56, 56), np.array([2, 3])), (1,))
    yield Case("Transpose", "1x128x12x32 > 0213", ((1, 128, 12, 32),), (), {"perm": [0, 2, 1, 3]})
    yield Case("Add", "64 80x80 + 64 80x80", ((1, 64, 80, 80), (1, 64, 80, 80)))


def arrays_of(case: Case) -> list[np.ndarray | None]:
    rng = np.random.default_rng(0)
    return [
        (rng.standard_normal(value) * 0.1).astype(np.float32) if isinstance(value, tuple) else value
        for value in case.inputs
    ]


def model_of(case: Case, arrays: list[np.ndarray | None]) -> onnx.ModelProto:
    names = ["" if array is None else f"x{index}" for index, array in enumerate(arrays)]
    given = [(name, array) for name, array in zip(names, arrays, strict=True) if array is not None]
    held = {f"x{index}" for index in case.weights}
    node = helper.make_node(case.op_type, names, ["y"], domain=case.domain, **case.attributes)
    graph = helper.make_graph(
        [node],
        case.op_type,
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in given
            if name not in held
        ],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(array, name) for name, array in given if name in held],
    )
    imports = [helper.make_opsetid("", case.opset)]
    imports += [helper.make_opsetid(case.domain, 1)] if case.domain else []
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def burst(call: Callable[[], object]) -> list[float]:
    """Times of calls, one after the other, for a moment; then a rest."""
    times: list[float] = []
    until = time.perf_counter() + BURST_S
    while len(times) < 3 or time.perf_counter() < until:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    time.sleep(REST_S)
    return times


def measure(case: Case, *, threads: int, rounds: int) -> dict[str, float]:
    arrays = arrays_of(case)
    model = model_of(case, arrays).SerializeToString()
    feeds = {f"x{i}": a for i, a in enumerate(arrays) if a is not None and i not in case.weights}
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 4
    theirs = ort.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
    ours = InferenceSession(model)
    for _ in range(3):
        got = ours.run(None, feeds)[0]
    if case.attributes.get("to") != onnx.TensorProto.BFLOAT16:
        np.testing.assert_allclose(got, theirs.run(None, feeds)[0], rtol=2e-3, atol=2e-3)
        their_call = lambda: theirs.run(None, feeds)
    else:  # its Python values have no bfloat16
        binding = theirs.io_binding()
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        binding.bind_output("y")
        their_call = lambda: theirs.run_with_iobinding(binding)
    return take_turns(lambda: ours.run(None, feeds), their_call, rounds=rounds)


def take_turns(
    ours: Callable[[], object], theirs: Callable[[], object], *, rounds: int, rest_s: float = 0.0
) -> dict[str, float]:
    """Times in ms of both, and their ratio."""
    calls = {"ours": ours, "theirs": theirs}
    medians: dict[str, list[float]] = {"ours": [], "theirs": []}
    shortest = dict.fromkeys(calls, float("inf"))
    for number in range(rounds):
        for name in list(calls) if number % 2 else list(calls)[::-1]:
            times = burst(calls[name])
            time.sleep(rest_s)
            medians[name].append(statistics.median(times))
            shortest[name] = min(shortest[name], *times)
    ms = {name: statistics.median(values) * 1e3 for name, values in medians.items()}
    return {
        "ours_ms": ms["ours"],
        "ort_ms": ms["theirs"],
        "ratio": ms["ours"] / ms["theirs"],
        "ratio_of_shortest": shortest["ours"] / shortest["theirs"],
    }


def print_table(
    doc: str, cases: Iterable[Case], measure: Callable[..., dict[str, float]], *, rounds: int
) -> None:
    """The command line of a benchmark of operators."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--only", default="", help="regular expression over 'Operator label'")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(f"{'operator':<68}{'ours ms':>10}{'ORT ms':>10}{'ratio':>8}{'shortest':>10}")
    rows: dict[str, dict[str, float]] = {}
    for case in cases:
        name = f"{case.op_type} {case.label}"
        if not re.search(options.only, name):
            continue
        row = rows[name] = measure(case, threads=options.threads, rounds=options.rounds)
        print(
            f"{name:<68}{row['ours_ms']:>10.3f}{row['ort_ms']:>10.3f}{row['ratio']:>8.2f}{row['ratio_of_shortest']:>10.2f}",
            flush=True,
        )
    save(
        options.json,
        {"conditions": conditions(["numpy", "numba", "onnxruntime"], threads=options.threads), "cases": rows},
    )


if __name__ == "__main__":
    print_table(__doc__, cases(), measure, rounds=7)
