"""Products with constant weights against ONNX Runtime, operator by operator, in the same run.

    python benchmarks/bench_matrix_ops.py [--only REGEX] [--rows 1,8,64,512] [--threads 2] [--rounds 7] [--json FILE]

Each case is a model of one node, run through our session and through ONNX Runtime in turns, in short bursts with a rest after
each. The ratio is ONNX Runtime's time over ours: above 1 we are faster. `error` is our largest difference from ONNX Runtime's
result, relative to the largest result; both quantize activations where an operator says so.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from bench_cpu_kernels import Case, model_of, take_turns
from measuring import conditions, save

from onnxgen.graph.session import InferenceSession

MICROSOFT = "com.microsoft"

SPINNING_S = 0.06
"""After its last product ONNX Runtime keeps a core busy for 40 to 50 ms."""


@dataclass(frozen=True)
class Product:
    """An operator at one size.

    Attributes:
        name: What the table calls it.
        make: From a random generator and a number of rows to the node's inputs.
        op_type: The operator.
        weights: Inputs that are constant.
        attributes: Of the node.
    """

    name: str
    make: Callable[[np.random.Generator, int], tuple[Any, ...]]
    op_type: str
    weights: tuple[int, ...]
    attributes: dict[str, Any] = field(default_factory=dict)


def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def _bytes(rng: np.random.Generator, dtype: Any, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def _blocks(bits: int, block: int, n: int, k: int, *, zeros: bool, level: int) -> Product:
    def make(rng: np.random.Generator, rows: int) -> tuple[Any, ...]:
        codes = _bytes(rng, np.uint8, n, k // block, block * bits // 8)
        scales = (rng.random((n, k // block)) * 0.01).astype(np.float16).astype(np.float32)
        points = (_bytes(rng, np.uint8, n, -(-k // block * bits // 8)),) if zeros else ()
        return (_normal(rng, rows, k), codes, scales, *points)

    attributes = {"N": n, "K": k, "bits": bits, "block_size": block, "accuracy_level": level}
    name = f"MatMulNBits {bits} bits, block {block}{', zero points' if zeros else ''}, level {level}, {k}x{n}"
    return Product(name, make, "MatMulNBits", (1, 2, 3) if zeros else (1, 2), attributes)


def _integers(op_type: str, n: int, k: int) -> Product:
    scale, zero = np.array(0.01, np.float32), np.array(117, np.uint8)

    def make(rng: np.random.Generator, rows: int) -> tuple[Any, ...]:
        b, b_zero = _bytes(rng, np.int8, k, n), np.array(0, np.int8)
        if op_type == "DynamicQuantizeMatMul":
            return _normal(rng, rows, k), b, scale
        a = _bytes(rng, np.uint8, rows, k)
        if op_type == "MatMulInteger":
            return a, b, zero, b_zero
        if op_type == "MatMulIntegerToFloat":
            return a, b, scale, scale, zero, b_zero
        return a, scale, zero, b, scale, b_zero, np.array(2, np.float32), zero

    weights = {"QLinearMatMul": (1, 2, 3, 4, 5, 6, 7), "MatMulIntegerToFloat": (1, 2, 3, 4, 5)}
    return Product(f"{op_type} {k}x{n}", make, op_type, weights.get(op_type, (1, 2, 3)))


def _floats(dtype: Any, n: int, k: int) -> Product:
    def make(rng: np.random.Generator, rows: int) -> tuple[Any, ...]:
        return _normal(rng, rows, k).astype(dtype), (_normal(rng, k, n) / 32).astype(dtype)

    return Product(f"MatMul {np.dtype(dtype).name} {k}x{n}", make, "MatMul", (1,))


def _experts(bits: int, experts: int, hidden: int, inner: int) -> Product:
    def make(rng: np.random.Generator, rows: int) -> tuple[Any, ...]:
        sizes = ((2 * inner, hidden), (hidden, inner))
        layers: list[Any] = []
        for outputs, inputs in sizes:
            codes = _bytes(rng, np.uint8, experts, outputs, inputs * bits // 8)
            layers += [codes, rng.random((experts, outputs, inputs // 32)).astype(np.float32) * 0.01, None]
        return (_normal(rng, rows, hidden), _normal(rng, rows, experts), *layers)

    attributes = {"k": 4, "expert_weight_bits": bits, "block_size": 32, "activation_type": "swiglu"}
    attributes |= {"swiglu_fusion": 1, "normalize_routing_weights": 1, "accuracy_level": 4}
    attributes |= {"activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 7.0}
    name = f"QMoE {bits} bits, 4 of {experts} experts, {hidden}x{inner}"
    return Product(name, make, "QMoE", (2, 3, 5, 6), attributes)


def products() -> Iterator[Product]:
    for n, k in ((4864, 896), (896, 4864), (8192, 2048)):
        yield _blocks(4, 32, n, k, zeros=False, level=4)
    yield _blocks(4, 32, 8192, 2048, zeros=True, level=4)
    yield _blocks(4, 128, 8192, 2048, zeros=False, level=4)
    yield _blocks(8, 32, 4864, 896, zeros=False, level=4)
    yield _blocks(2, 32, 4864, 896, zeros=False, level=4)
    yield _blocks(4, 32, 4864, 896, zeros=False, level=0)
    yield _blocks(8, 32, 4864, 896, zeros=False, level=0)
    for op_type in ("DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat", "QLinearMatMul"):
        for n, k in ((4864, 896), (8192, 2048)):
            yield _integers(op_type, n, k)
    for dtype in (np.float32, np.float16):
        for n, k in ((4864, 896), (8192, 2048)):
            yield _floats(dtype, n, k)
    yield _experts(4, 16, 512, 1024)


def measure(product: Product, rows: int, *, threads: int, rounds: int) -> dict[str, float]:
    """Times in ms, their ratio, and the difference of results."""
    inputs = product.make(np.random.default_rng(0), rows)
    domain = "" if product.op_type in ("MatMul", "MatMulInteger", "QLinearMatMul") else MICROSOFT
    case = Case(product.op_type, product.name, inputs, product.weights, product.attributes, domain, 20)
    arrays = list(inputs)
    model = model_of(case, arrays).SerializeToString()
    feeds = {f"x{i}": a for i, a in enumerate(arrays) if a is not None and i not in case.weights}
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 4
    theirs = ort.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
    ours = InferenceSession(model)
    for _ in range(3):
        got = np.asarray(ours.run(None, feeds)[0], np.float64)
    want = np.asarray(theirs.run(None, feeds)[0], np.float64)
    times = take_turns(
        lambda: ours.run(None, feeds), lambda: theirs.run(None, feeds), rounds=rounds, rest_s=SPINNING_S
    )
    return {
        **times,
        "ratio": 1 / times["ratio"],
        "ratio_of_shortest": 1 / times["ratio_of_shortest"],
        "error": float(np.abs(got - want).max() / np.abs(want).max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="regular expression over the names of cases")
    parser.add_argument("--rows", default="1,8,64,512", help="rows of activations, separated by commas")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(
        f"{'operator':<60}{'rows':>5}{'ours ms':>10}{'ORT ms':>10}{'ratio':>8}{'shortest':>10}{'error':>10}"
    )
    found: dict[str, dict[str, float]] = {}
    for product in products():
        if not re.search(options.only, product.name):
            continue
        for rows in map(int, options.rows.split(",")):
            row = measure(product, rows, threads=options.threads, rounds=options.rounds)
            found[f"{product.name}, {rows} rows"] = row
            print(
                f"{product.name:<60}{rows:>5}{row['ours_ms']:>10.3f}{row['ort_ms']:>10.3f}{row['ratio']:>8.2f}"
                f"{row['ratio_of_shortest']:>10.2f}{row['error']:>10.1e}",
                flush=True,
            )
    save(
        options.json,
        {
            "conditions": conditions(["numpy", "numba", "onnxruntime"], threads=options.threads),
            "cases": found,
        },
    )


if __name__ == "__main__":
    main()
