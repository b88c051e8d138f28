"""The same model folder through onnxgen and onnxruntime-genai, interleaved; prints medians and ratios.

python benchmarks/bench_backend_vs_genai.py MODEL_FOLDER --threads 2 --rounds 5 --json out.json
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path
from typing import Any

from contestants import NAMES, PEER, InOwnProcess
from measuring import Series, conditions, folder_megabytes, interleaved, prompt_ids, save

from onnxgen.metadata import load_model_spec


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="a model folder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prefill", type=_numbers, default=[128, 512, 2048], help="prompt lengths")
    parser.add_argument("--decode", type=_numbers, default=[128, 1024], help="lengths before the answer")
    parser.add_argument("--new", type=int, default=64, help="length of the answer")
    parser.add_argument("--contestants", default=",".join(NAMES), help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    args = _arguments()
    vocab_size = load_model_spec(args.model).vocab_size
    names = args.contestants.split(",")
    opened = {name: InOwnProcess(name, args.model, args.threads) for name in names}
    pids = [one.pid for one in opened.values()]
    results: dict[str, dict[str, Series]] = {}
    for length in args.prefill:
        ids = prompt_ids(length, vocab_size)
        runs = {name: functools.partial(one.prefill, ids) for name, one in opened.items()}
        results[f"prefill {length}"] = interleaved(runs, rounds=args.rounds, pids=pids)
        _print(f"prefill {length}", results)
    for length in args.decode:
        ids = prompt_ids(length, vocab_size)
        runs = {name: functools.partial(one.decode, ids, args.new) for name, one in opened.items()}
        results[f"decode @{length}"] = interleaved(runs, rounds=args.rounds, pids=pids)
        _print(f"decode @{length}", results)
    for one in opened.values():
        one.close()
    save(args.json, _report(args, results))


def _print(metric: str, results: dict[str, dict[str, Series]]) -> None:
    series = results[metric]
    peer = series.get(PEER)
    parts = [
        f"{name} {one.median:8.1f} tok/s" + (f" ({one.median / peer.median:.2f})" if peer else "")
        for name, one in series.items()
    ]
    noise = max(max(one.foreign_cpus) for one in series.values())
    print(f"{metric:14s} {'   '.join(parts)}   foreign load up to {noise:.2f} CPUs", flush=True)


def _report(args: argparse.Namespace, results: dict[str, dict[str, Series]]) -> dict[str, Any]:
    packages = ["onnxgen", "onnxruntime", "onnxruntime-genai"]
    return {
        "conditions": conditions(
            packages,
            model=args.model.name,
            model_mb=folder_megabytes(args.model),
            threads=args.threads,
            rounds=args.rounds,
            new_tokens=args.new,
        ),
        "unit": "tokens per second; ratio to onnxruntime-genai",
        "results": {
            metric: {
                name: {
                    "median": round(one.median, 2),
                    "ratio": round(one.median / series[PEER].median, 3) if PEER in series else None,
                    "values": [round(value, 2) for value in one.values],
                    "foreign_cpus": one.foreign_cpus,
                }
                for name, one in series.items()
            }
            for metric, series in results.items()
        },
    }


if __name__ == "__main__":
    main()
