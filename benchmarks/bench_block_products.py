"""Products with quantized matrices against ``MatMulNBits`` of ONNX Runtime, in the same run.

    python benchmarks/bench_block_products.py [--threads 2] [--rows 1,16,512] [--shapes 896x4864,...] [--level 4]
        [--bits 4] [--block 32] [--rounds 7] [--json FILE]

Each case is a step of several products, each quantizing its rows first as ``MatMulNBits`` does, and a graph of as many nodes.
For up to four rows there are enough different matrices that they come from main memory, as in decoding, and once more one
matrix that stays in the cache. Contestants take turns; printed are medians, their ratio, operations a second, and bytes a second of
the packed matrix.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort
from measuring import Watch, conditions, save
from onnx import TensorProto, helper, numpy_helper

from onnxgen.graph.cpu.aligned_memory import Arena
from onnxgen.graph.cpu.compiled.header import HEADER_WORDS, Header
from onnxgen.graph.cpu.packed_blocks import BlockMatrix, PackedBlocks, pack
from onnxgen.graph.cpu.row_kernels import parts_of_elements, quantize_kernel
from onnxgen.graph.cpu.step.crew import crew
from onnxgen.graph.cpu.step.table import StepShape, StepTable

SHAPES = "896x4864,4864x896,576x1536,1536x576,2048x8192"
DRAM_BYTES, REST_S, WARM_S = 120e6, 0.03, 0.05
FEW_ROWS = 4
STEP_OPERATIONS, MOST_PRODUCTS = 2e9, 32
"""A step of one matrix repeats it, so that calls from Python take no part of the time."""


def random_matrix(rng: np.random.Generator, depth: int, columns: int, bits: int, block: int) -> BlockMatrix:
    """Uniform codes, scales that float16 holds."""
    blocks = -(-depth // block)
    codes = rng.integers(0, 256, (columns, blocks, block * bits // 8), dtype=np.uint8)
    scales = (rng.random((columns, blocks)) * 0.01).astype(np.float16).astype(np.float32)
    return BlockMatrix(codes, scales, None, depth, bits, block)


class Ours:
    """A step of products; each with its own matrix and results, all of the same rows."""

    def __init__(self, matrices: list[PackedBlocks], products: int, x: np.ndarray, threads: int) -> None:
        form, rows = matrices[0].form, len(x)
        groups, padded = matrices[0].groups, matrices[0].groups * form.group
        self.y, others = (np.zeros((rows, matrices[0].columns), np.float32) for _ in range(2))
        q = np.zeros((rows, padded), np.int16 if form.words else np.int8)
        scales, sums = np.zeros((rows, groups), np.float32), np.zeros((rows, groups), np.int32)
        self.table, self.threads = StepTable(), threads
        self.table.keep(matrices, x, q, scales, sums, others)
        for index in range(products):
            matrix, y = matrices[index % len(matrices)], others if index else self.y
            self.table.add(
                quantize_kernel("int16" if form.words else "int8", form.group),
                parts=parts_of_elements(rows, x.shape[1]),
                rows=Header.TOKENS,
                width=x.shape[1],
                x=x.ctypes.data,
                x_stride=x.shape[1],
                q=q.ctypes.data,
                q_stride=padded,
                scale=scales.ctypes.data,
                group_stride=groups,
                total=sums.ctypes.data,
            )
            self.table.add(
                matrix.product(),
                parts=matrix.parts(rows, threads=threads),
                rows_word=Header.TOKENS,
                x=q.ctypes.data,
                scales=scales.ctypes.data,
                sums=sums.ctypes.data,
                x_stride=q.strides[0],
                scale_stride=4 * groups,
                **matrix.product_arguments(),
                y=y.ctypes.data,
                y_stride=y.strides[0],
                bias=0,
                further=0,
            )
        self.header = np.zeros(HEADER_WORDS, np.int64)
        self.header[Header.TOKENS] = rows
        self.counts = self.table.counts(StepShape(tokens=rows, rows=rows))

    def __call__(self) -> None:
        crew().run(self.table, self.counts, self.header, threads=self.threads)


class Theirs:
    """A graph of products of one input; its results stay where they are."""

    def __init__(
        self, matrices: list[BlockMatrix], products: int, x: np.ndarray, threads: int, level: int
    ) -> None:
        weights = [
            numpy_helper.from_array(array, f"{name}{index}")
            for index, matrix in enumerate(matrices)
            for name, array in (("codes", matrix.codes), ("scales", matrix.scales))
        ]
        first = matrices[0]
        # Nodes of one input and one matrix would be taken for the same.
        nodes = [
            helper.make_node(
                "MatMulNBits",
                [f"x{i}", f"codes{i % len(matrices)}", f"scales{i % len(matrices)}"],
                [f"y{i}"],
                domain="com.microsoft",
                K=first.depth,
                N=first.columns,
                bits=first.bits,
                block_size=first.block,
                accuracy_level=level,
            )
            for i in range(products)
        ]
        given, made = (
            [helper.make_tensor_value_info(f"{name}{i}", TensorProto.FLOAT, shape) for i in range(products)]
            for name, shape in (("x", list(x.shape)), ("y", [len(x), first.columns]))
        )
        graph = helper.make_graph(nodes, "products", given, made, weights)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self.y, others = (np.zeros((len(x), first.columns), np.float32) for _ in range(2))
        self.binding = self.session.io_binding()
        for i in range(products):
            y = others if i else self.y
            self.binding.bind_ortvalue_input(f"x{i}", ort.OrtValue.ortvalue_from_numpy(x))
            self.binding.bind_ortvalue_output(f"y{i}", ort.OrtValue.ortvalue_from_numpy(y))

    def __call__(self) -> None:
        self.session.run_with_iobinding(self.binding)


def times(calls: list, rounds: int, repeats: int) -> tuple[list[float], float]:
    """Median seconds of a call of each contestant, and the CPUs that other processes took meanwhile."""
    results: list[list[float]] = [[] for _ in calls]
    with Watch() as watch:
        for number in range(rounds):
            for index in range(len(calls)) if number % 2 == 0 else reversed(range(len(calls))):
                time.sleep(REST_S)  # threads spin for a while after their work
                # The system takes a while to give threads that slept a core of their own.
                awake = time.perf_counter() + WARM_S
                while time.perf_counter() < awake:
                    calls[index]()
                start = time.perf_counter()
                for _ in range(repeats):
                    calls[index]()
                results[index].append((time.perf_counter() - start) / repeats)
    return [statistics.median(values) for values in results], watch.foreign_cpus


def measure(depth: int, columns: int, rows: int, copies: int, options: argparse.Namespace) -> dict:
    """One case."""
    rng, arena = np.random.default_rng(0), Arena()
    matrices = [random_matrix(rng, depth, columns, options.bits, options.block) for _ in range(copies)]
    packed = [
        pack([matrix], words=options.level < 4, threads=options.threads, allocate=arena.allocate)
        for matrix in matrices
    ]
    x = rng.standard_normal((rows, depth)).astype(np.float32)
    operations = 2 * rows * depth * columns
    products = copies if copies > 1 else max(1, min(MOST_PRODUCTS, int(STEP_OPERATIONS / operations)))
    ours = Ours(packed, products, x, options.threads)
    theirs = Theirs(matrices, products, x, options.threads, options.level)
    repeats = max(1, int(STEP_OPERATIONS / (operations * products)))
    medians, foreign = times([ours, theirs], options.rounds, repeats)
    mine, other = (seconds / products for seconds in medians)
    difference = np.linalg.norm(ours.y - theirs.y) / np.linalg.norm(theirs.y)
    return {
        "depth": depth,
        "columns": columns,
        "rows": rows,
        "from": "memory" if copies > 1 else "cache",
        "us": mine * 1e6,
        "ort_us": other * 1e6,
        "ratio": other / mine,
        "gop_s": operations / mine / 1e9,
        "gb_s": packed[0].num_bytes / mine / 1e9,
        "difference": float(difference),
        "foreign_cpus": round(foreign, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", default="1,4,16,64,512")
    parser.add_argument("--shapes", default=SHAPES, help="depth x columns")
    parser.add_argument("--level", type=int, default=4, help="accuracy_level of MatMulNBits")
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = []
    for shape in options.shapes.split(","):
        depth, columns = map(int, shape.split("x"))
        num_bytes = depth * columns * options.bits / 8
        for rows in map(int, options.rows.split(",")):
            copies = [max(2, int(DRAM_BYTES / num_bytes))] if rows <= FEW_ROWS else []
            for count in [*copies, 1]:
                result = measure(depth, columns, rows, count, options)
                results.append(result)
                print(
                    f"{shape:>11} rows {rows:4} {result['from']:6}  {result['us']:9.1f} us  ort {result['ort_us']:9.1f} us"
                    f"  ratio {result['ratio']:5.2f}  {result['gop_s']:6.0f} GOP/s  {result['gb_s']:5.1f} GB/s"
                    f"  difference {result['difference']:.1e}  others {result['foreign_cpus']:.2f} CPUs",
                    flush=True,
                )
    packages = ["onnxgen", "onnxruntime", "numba", "llvmlite", "numpy"]
    save(options.json, {**conditions(packages, threads=options.threads), "results": results})


if __name__ == "__main__":
    main()
