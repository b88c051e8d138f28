"""Paged attention of the native step against ONNX Runtime's GroupQueryAttention, in the same run.

    python benchmarks/bench_paged_attention.py [--shapes 14,2,64 9,3,64] [--threads 2] [--rounds 7] [--layers 8] [--bits 16] [--json FILE]

Cases: a causal prompt (in passes of 512 tokens, as steps are), decoding one sequence, decoding 16 together. Decoding goes through
``--layers`` caches of their own, so that keys and values come from where they are in a model's step. Both rotate nothing and hold
their keys and values in place: pages of int16 or int8 here, float32 buffers there. Prints microseconds a layer, operations or bytes a
second of ours, and the ratio.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from measuring import Watch, conditions, save
from onnx import TensorProto, helper

from onnxgen.graph.cpu.aligned_memory import aligned
from onnxgen.graph.cpu.compiled.header import HEADER_WORDS, Header
from onnxgen.graph.cpu.paged_attention import PagedAttention
from onnxgen.graph.cpu.step.crew import crew
from onnxgen.graph.cpu.step.table import StepShape, StepTable

BLOCK, PASS, PARTS, MOST_PARTIALS = 64, 512, 32, 1 << 14


class Ours:
    """Layers of attention over pages of their own; each sequence has ``context + tokens`` tokens in the end."""

    def __init__(
        self, attention: PagedAttention, *, seqs: int, context: int, tokens: int, layers: int, threads: int
    ):
        a, rng = attention, np.random.default_rng(1)
        blocks = -(-(context + tokens) // BLOCK)
        pages = a.pages(block_size=BLOCK)
        rows = seqs * tokens
        self.threads, self.held = threads, []
        positions = context + np.tile(np.arange(tokens), seqs)
        owners = np.repeat(np.arange(seqs), tokens)
        table = rng.permutation(seqs * blocks).reshape(seqs, blocks).astype(np.int32)
        slots = table[owners, positions // BLOCK].astype(np.int64) * BLOCK + positions % BLOCK
        self.header = np.zeros(HEADER_WORDS, np.int64)
        for word, value in (
            (Header.TOKENS, rows),
            (Header.SEQS, seqs),
            (Header.POSITIONS, self._address(positions.astype(np.int64))),
            (Header.CU_SEQLENS, self._address(np.arange(seqs + 1, dtype=np.int32) * tokens)),
            (Header.CONTEXT_LENS, self._address(np.full(seqs, context, np.int32))),
            (Header.BLOCK_TABLE, self._address(table)),
            (Header.BLOCK_TABLE_WIDTH, blocks),
            (Header.BLOCK_SIZE, BLOCK),
            (Header.SLOTS, self._address(slots)),
        ):
            self.header[word] = value
        width = (a.heads + a.kv_heads) * a.head_dim + a.kv_heads * a.value_dim
        activations = rng.standard_normal((rows, width), dtype=np.float32)
        most_items = a.most_items(rows, seqs, threads)
        items, partials = (
            self._memory(a.items_bytes(most_items)),
            self._memory(a.partials_bytes(MOST_PARTIALS)),
        )
        queries, scales = self._memory(a.query_bytes(rows)), self._memory(a.query_scale_bytes(rows))
        out = self._memory(4 * rows * a.heads * a.value_dim)
        self.table = StepTable()
        self.table.add(
            a.plan_kernel(),
            **a.plan_constants(),
            items=items,
            most_items=most_items,
            most_partials=MOST_PARTIALS,
            workers=threads,
        )
        for _ in range(layers):
            memory = self._filled(seqs * blocks * pages.block_bytes, rng)
            shared = {
                "queries": queries,
                "query_scales": scales,
                "pages": memory,
                "block_bytes": pages.block_bytes,
            }
            self.table.add(
                a.write_kernel(),
                parts=min(PARTS, rows * a.kv_heads),
                **a.write_constants(),
                **shared,
                rows=self._address(activations),
                row_bytes=activations.strides[0],
                query_column=0,
                key_column=a.heads * a.head_dim,
                value_column=(a.heads + a.kv_heads) * a.head_dim,
                **dict.fromkeys(("query_norm", "key_norm", "cos", "sin"), 0),
                epsilon=0.0,
                slots_word=int(Header.SLOTS),
            )
            self.table.add(
                a.attend_kernel(),
                parts=PARTS,
                **a.attend_constants(),
                **shared,
                table_word=int(Header.BLOCK_TABLE),
                out=out,
                out_stride=4 * a.heads * a.value_dim,
                sinks=0,
                items=items,
                partials=partials,
            )
        self.counts = self.table.counts(StepShape(rows, seqs))

    def __call__(self) -> None:
        crew().run(self.table, self.counts, self.header, threads=self.threads)

    def _address(self, array: np.ndarray) -> int:
        self.held.append(array)
        return array.ctypes.data

    def _memory(self, size: int) -> int:
        return self._address(aligned(size))

    def _filled(self, size: int, rng: np.random.Generator) -> int:
        """Pages of small integers with scales near 1e-4: numbers like any, without NaN."""
        memory = aligned(size)
        memory.view(np.float32)[:] = rng.uniform(1e-5, 1e-4, size // 4).astype(np.float32)
        return self._address(memory)


class Theirs:
    """The same through ONNX Runtime, one buffer of keys and one of values a layer, used in place."""

    def __init__(
        self, attention: PagedAttention, *, seqs: int, context: int, tokens: int, layers: int, threads: int
    ):
        a, rng = attention, np.random.default_rng(1)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        session = ort.InferenceSession(_model(a), options, providers=["CPUExecutionProvider"])
        total = context + tokens
        widths = {"q": a.heads * a.head_dim, "k": a.kv_heads * a.head_dim, "v": a.kv_heads * a.value_dim}
        given: dict[str, Any] = {
            name: rng.standard_normal((seqs, tokens, width), dtype=np.float32)
            for name, width in widths.items()
        }
        given["seqlens"] = np.full(seqs, total - 1, np.int32)
        given["total"] = np.array([total], np.int32)
        self.bound = []
        for _ in range(layers):
            binding = session.io_binding()
            for name, array in given.items():
                binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array))
            for kind in ("key", "value"):
                held = rng.standard_normal((seqs, a.kv_heads, total, a.head_dim), dtype=np.float32)
                buffer = ort.OrtValue.ortvalue_from_numpy(held)
                binding.bind_ortvalue_input(f"past_{kind}", buffer)
                binding.bind_ortvalue_output(f"present_{kind}", buffer)
            binding.bind_output("y")
            self.bound.append((session, binding))

    def __call__(self) -> None:
        for session, binding in self.bound:
            session.run_with_iobinding(binding)


def _model(attention: PagedAttention) -> bytes:
    inputs = ["q", "k", "v", "past_key", "past_value", "seqlens", "total"]
    node = helper.make_node(
        "GroupQueryAttention",
        inputs,
        ["y", "present_key", "present_value"],
        domain="com.microsoft",
        num_heads=attention.heads,
        kv_num_heads=attention.kv_heads,
    )
    integers = {"seqlens", "total"}
    infos = [
        helper.make_tensor_value_info(
            name, TensorProto.INT32 if name in integers else TensorProto.FLOAT, None
        )
        for name in [*inputs, *node.output]
    ]
    graph = helper.make_graph([node], "attention", infos[: len(inputs)], infos[len(inputs) :])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def seconds(run: Callable[[], None], *, at_least_s: float = 0.03) -> float:
    """Of one run, in a burst of some."""
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < at_least_s:
        run()
        count += 1
    return (time.perf_counter() - started) / count


def compare(ours: Sequence[Callable[[], None]], theirs: Sequence[Callable[[], None]], rounds: int) -> Any:
    """Medians and shortest of both, in turns; and how many CPUs others took."""
    values: tuple[list[float], list[float]] = [], []
    for run in (*ours, *theirs):
        run()
    with Watch() as watch:
        for turn in range(rounds):
            for side, runs in ((0, ours), (1, theirs))[:: 1 if turn % 2 else -1]:
                values[side].append(sum(seconds(run) for run in runs))
                time.sleep(0.02)
    return [statistics.median(v) for v in values], [min(v) for v in values], watch.foreign_cpus


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", default=["14,2,64", "9,3,64", "32,8,128"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=2048)
    parser.add_argument("--bits", type=int, default=16, choices=(8, 16), help="of keys and values in pages")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: list[dict[str, Any]] = []
    for shape in options.shapes:
        heads, kv_heads, dim = (int(part) for part in shape.split(","))
        a = PagedAttention(heads, kv_heads, dim, dim, bits=options.bits)
        steps = [(1, start, min(PASS, options.prompt - start)) for start in range(0, options.prompt, PASS)]
        cases = {f"prompt {options.prompt}": (steps, 1)}
        cases |= {
            f"decode 1 x {length}": ([(1, length - 1, 1)], options.layers) for length in (256, 1024, 2048)
        }
        cases["decode 16 x 256"] = [(16, 255, 1)], options.layers
        for name, (parts, layers) in cases.items():
            sides = [
                [
                    side(a, seqs=s, context=c, tokens=t, layers=layers, threads=options.threads)
                    for s, c, t in parts
                ]
                for side in (Ours, Theirs)
            ]
            medians, shortest, foreign = compare(*sides, options.rounds)
            micro = [value / layers * 1e6 for value in medians]
            pairs = sum(s * (t * c + t * (t + 1) / 2) for s, c, t in parts)
            read = sum(s * (c + t) for s, c, t in parts) * a.pages(block_size=BLOCK).bytes_per_token
            speed = (
                f"{4 * heads * dim * pairs / micro[0] / 1e3:5.0f} GOP/s"
                if "prompt" in name
                else f"{read / micro[0] / 1e3:5.1f} GB/s"
            )
            print(
                f"{shape:9s} {name:17s} ours {micro[0]:9.1f} us {speed}   ONNX Runtime {micro[1]:9.1f} us   "
                f"ratio {medians[1] / medians[0]:.2f} (shortest {shortest[1] / shortest[0]:.2f})   "
                f"others {foreign:.2f} CPUs",
                flush=True,
            )
            results.append(
                {
                    "shape": shape,
                    "case": name,
                    "ours_us": micro[0],
                    "ort_us": micro[1],
                    "ratio": medians[1] / medians[0],
                    "ratio_of_shortest": shortest[1] / shortest[0],
                    "shortest_us": [value / layers * 1e6 for value in shortest],
                    "foreign_cpus": foreign,
                }
            )
    more = {name: getattr(options, name) for name in ("threads", "rounds", "layers", "bits")}
    save(options.json, {**conditions(["onnxruntime", "numba", "numpy"], **more), "results": results})


if __name__ == "__main__":
    main()
