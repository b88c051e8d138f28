"""``python -m onnxgen.conformance``: one line per group of the ONNX backend tests."""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from onnxgen.conformance.cases import GROUPS, load_cases
from onnxgen.conformance.levels import LEVELS
from onnxgen.conformance.runner import GroupResult, run_group
from onnxgen.conformance.subjects import onnx_runtime, ours


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests and print the counts; 0 when nothing failed, 1 otherwise."""
    asked = _parser().parse_args(arguments)
    pattern = re.compile(asked.filter)
    load = ours(asked.providers.split(","), level=LEVELS[asked.level], memory_reuse=not asked.no_memory_reuse)
    report: dict[str, Any] = {}
    peers: dict[str, Any] = {}
    failed = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx and the reference evaluator warn about their own arithmetic
        for group in asked.groups.split(","):
            cases = [case for case in load_cases(group) if pattern.search(case.name)]
            result = run_group(group, cases, load, repeats=asked.repeats)
            report[group], failed = result.as_json(), failed or bool(result.failed)
            if not asked.json:
                _print("onnxgen", result, verbose=asked.verbose)
            if asked.against == "ort":
                peer = run_group(group, cases, onnx_runtime())
                peers[group] = peer.as_json()
                if not asked.json:
                    _print("ort", peer, verbose=False)
    if asked.json:
        json.dump(report | ({"ort": peers} if peers else {}), sys.stdout, indent=2)
        print()
    return int(failed)


def _print(who: str, result: GroupResult, *, verbose: bool) -> None:
    counts = f"{len(result.passed)} passed, {len(result.failed)} failed, {len(result.excluded)} excluded"
    cpu = "" if result.claimed_by_cpu is None else f", {result.claimed_by_cpu} by cpu alone"
    print(f"{result.group:18} {who:8} {counts} of {result.total}{cpu}", flush=True)
    for name, why in result.failed.items() if verbose else ():
        print(f"  failed {name}: {' '.join(why.split())[:300]}")
    for name, why in result.excluded.items() if verbose else ():
        print(f"  excluded {name}: {why}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m onnxgen.conformance",
        description="Run the ONNX backend tests of the installed onnx through onnxgen's execution providers.",
    )
    parser.add_argument("--providers", default="cpu,reference", help="in order of preference (%(default)s)")
    parser.add_argument("--against", choices=["ort"], help="count ONNX Runtime's verdicts in the same run")
    parser.add_argument("--json", action="store_true", help="counts and names as JSON")
    parser.add_argument("--groups", default=",".join(GROUPS), help="of %(default)s")
    parser.add_argument("--filter", default="", metavar="REGEX", help="only tests whose name has it")
    parser.add_argument(
        "--level", choices=list(LEVELS), default="all", help="graph optimization (%(default)s)"
    )
    parser.add_argument("--no-memory-reuse", action="store_true", help="every value gets memory of its own")
    parser.add_argument(
        "--repeats", type=int, default=3, help="runs of each session, all judged (%(default)s)"
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="also what failed and was excluded, and why"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
