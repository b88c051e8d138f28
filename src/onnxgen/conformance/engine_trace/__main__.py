"""``python -m onnxgen.conformance.engine_trace FILE``: whether a traced engine kept its promises."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from onnxgen.conformance.engine_trace.reader import STARVED_STEPS, check_trace


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a file and print what was found; 0 when no rule is broken, 1 otherwise."""
    asked = _parser().parse_args(arguments)
    with Path(asked.file).open(encoding="utf-8") as lines:
        report = check_trace(lines, starved_steps=asked.starved_steps)
    if asked.json:
        json.dump(asdict(report), sys.stdout, indent=2)
        print()
        return int(bool(report.violations))
    for violation in report.violations[: asked.max]:
        print(violation)
    counts = ", ".join(
        f"{count} {rule}" for rule, count in Counter(v.rule for v in report.violations).items()
    )
    print(f"{report.num_lines} events, {report.num_steps} steps: {counts or 'no rule is broken'}")
    return int(bool(report.violations))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m onnxgen.conformance.engine_trace",
        description="Replay the protocol trace of an engine and report every rule that it broke.",
    )
    parser.add_argument("file", metavar="FILE", help="what the engine wrote")
    parser.add_argument("--max", type=int, default=50, help="violations to print (%(default)s)")
    parser.add_argument(
        "--starved-steps",
        type=int,
        default=STARVED_STEPS,
        help="steps with prompts that a running answer may miss in a row (%(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="the whole report as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
