"""``python -m onnxgen.conformance.nodes``: each node of a model alone, on the values that ONNX Runtime gives it.

Where whole models differ, this tells whose fault it is: a kernel that computes something else, or rounding that adds up.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnxgen.conformance.differences import largest_difference
from onnxgen.conformance.models import model_files
from onnxgen.conformance.peer import Peer, open_peer
from onnxgen.graph.ep.from_graph import constant_array, node_spec
from onnxgen.graph.ep.provider import Claim
from onnxgen.graph.loader import load_graph
from onnxgen.graph.plugin import load_provider
from onnxgen.graph.shapes import infer_shapes

_CONTROL_FLOW = ("If", "Loop", "Scan")


@dataclass(frozen=True, slots=True)
class NodeResult:
    """What came of one node.

    Attributes:
        node: Operator, version and name.
        shapes: Of its inputs.
        difference: The `largest_difference` of its outputs; for integers, booleans and strings the share of elements
            that differ.
        failure: Why it did not run.
    """

    node: str
    shapes: tuple[tuple[int, ...] | None, ...]
    difference: float
    failure: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the nodes of each model that differ; 0 when there are none, 1 otherwise."""
    asked = _parser().parse_args(arguments)
    sizes = {name: int(size) for name, size in (text.split("=", 1) for text in asked.dim)}
    values = {name: float(value) for name, value in (text.split("=", 1) for text in asked.value)}
    found = False
    for path in model_files(asked.paths):
        results = list(compare_nodes(path, sizes, values=values, provider=asked.provider, seed=asked.seed))
        wrong = [one for one in results if one.failure or not one.difference <= asked.tolerance]
        print(f"{path}: {len(results)} nodes, {len(wrong)} differ by more than {asked.tolerance:g}")
        for one in wrong:
            print(f"  {one.node} on {one.shapes}: {one.failure or f'{one.difference:.1e}'}")
        found = found or bool(wrong)
    return int(found)


def compare_nodes(
    path: Path,
    sizes: Mapping[str, int],
    *,
    values: Mapping[str, float] | None = None,
    provider: str = "cpu",
    seed: int = 0,
) -> Iterator[NodeResult]:
    """Run every node of a model's main graph that a provider claims, on ONNX Runtime's values.

    Nodes with graphs in them, and nodes of functions, whose inputs ONNX Runtime does not show, are left out.

    Args:
        path: The model.
        sizes: Sizes of open dimensions by name.
        values: What inputs are filled with, by name.
        provider: Ours.
        seed: Of the random inputs.

    Raises:
        ValueError: ONNX Runtime refuses every input that was tried.
    """
    runs = Peer(path).accepted_runs(sizes, values or {}, seed=seed, wanted=1)
    if not runs:
        raise ValueError(
            f"{path}: ONNX Runtime refuses every size that was tried; give sizes of its dimensions"
        )
    known = dict(runs[0].feeds) | _all_values(path, runs[0].feeds)
    model = load_graph(path).model
    infer_shapes(model)
    runner = load_provider(provider)
    for node in model.graph:
        spec = node_spec(node, model.opset_imports)
        given: list[Any] = [
            None if value is None else known.get(value.name or "", constant_array(value))
            for value in node.inputs
        ]
        claim = runner.claim(spec)
        unknown = any(
            value is not None and array is None for value, array in zip(node.inputs, given, strict=True)
        )
        if node.op_type in _CONTROL_FLOW or unknown or not isinstance(claim, Claim):
            continue
        shapes = tuple(getattr(value, "shape", None) for value in given)
        try:
            with np.errstate(all="ignore"):
                results = runner.compile(spec, claim).run(*given)
        except Exception as error:  # noqa: BLE001 - a report, not a handler
            yield NodeResult(str(spec), shapes, float("inf"), f"{type(error).__name__}: {error}")
            continue
        outputs = results if isinstance(results, tuple) else (results,)
        pairs = [
            (result, known[value.name])
            for value, result in zip(node.outputs, outputs, strict=True)
            if value.name in known and result is not None
        ]
        yield NodeResult(str(spec), shapes, max((_difference(*pair) for pair in pairs), default=0.0))


def _all_values(path: Path, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """What ONNX Runtime computes for every value of the main graph."""
    model = onnx.load(path)
    outputs = {output.name for output in model.graph.output}
    names = dict.fromkeys(name for node in model.graph.node for name in node.output if name)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in outputs)
    session = open_peer(model.SerializeToString(), optimized=False)
    return dict(zip(names, session.run(list(names), dict(feeds)), strict=True))


def _difference(found: Any, expected: Any) -> float:
    if not isinstance(expected, np.ndarray) or expected.dtype.kind == "f":
        return largest_difference(found, expected)
    if not isinstance(found, np.ndarray) or found.shape != expected.shape:
        return float("inf")
    return float(np.mean(found != expected)) if expected.size else 0.0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m onnxgen.conformance.nodes",
        description="Compare each node of models with ONNX Runtime, on the values that ONNX Runtime gives it.",
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="model files, or folders to search for *.onnx"
    )
    parser.add_argument("--provider", default="cpu", help="ours (%(default)s)")
    parser.add_argument(
        "--dim", action="append", default=[], metavar="NAME=SIZE", help="size of an open dimension"
    )
    parser.add_argument(
        "--value", action="append", default=[], metavar="INPUT=NUMBER", help="what an input is filled with"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs (%(default)s)")
    parser.add_argument(
        "--tolerance",
        type=float,
        default=1e-4,
        help="in units of the largest value of an output (%(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
