"""Measure servers over HTTP.

    python -m benchmarks.http.setup --environments ENVIRONMENTS          # once, after benchmarks.peers.setup
    python -m benchmarks.http compare --environments ENVIRONMENTS --models MODELS --json compare.json
    python -m benchmarks.http overhead --environments ENVIRONMENTS --models MODELS --json overhead.json
    python -m benchmarks.http soak --environments ENVIRONMENTS --models MODELS --json soak.json
    python -m benchmarks.http page compare.json overhead.json soak.json --write page.md
    python -m benchmarks.http load http://127.0.0.1:8080 --model smollm2 --requests 64 --at-once 16

Run it from the root of the sources, on a machine that does nothing else. ``load`` asks a server that runs already.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.http.contenders import CONTENDERS, MOST_AT_ONCE, Contender, Places
from benchmarks.http.figures import figures_of, require_right
from benchmarks.http.load import Target, ask_all, run_clients
from benchmarks.http.overhead import measure_overhead
from benchmarks.http.page import document
from benchmarks.http.rounds import measure_servers
from benchmarks.http.soak import endure
from benchmarks.http.work import mixed
from benchmarks.measuring import conditions, save
from benchmarks.peers.contenders import OURS
from benchmarks.peers.rounds import Figures

from onnxgen.foundations.cpuinfo import default_threads

_MODEL = "smollm2-135m"


def main() -> None:
    """Measure, and say or write what was found."""
    args = _arguments()
    if args.kind == "page":
        page = document([json.loads(path.read_text(encoding="utf-8")) for path in args.reports])
        print(page)
        if args.write:
            args.write.write_text(page, encoding="utf-8")
        return
    if args.kind == "load":
        _load(args)
        return
    report = {"compare": _compare, "overhead": _overhead, "soak": _soak}[args.kind](args)
    print(document([report]))
    save(args.json, report)
    if args.kind == "soak" and (report["found"]["tally"]["wrong"] or report["found"]["changed_alone"]):
        raise SystemExit("there are wrong answers")


def _compare(args: argparse.Namespace) -> dict[str, Any]:
    contenders = [contender for contender in CONTENDERS if contender.key in args.only]
    figures: dict[str, dict[str, Figures]] = {}
    try:
        measure_servers(
            args.model,
            contenders,
            _places(args),
            at_once=args.at_once,
            rounds=args.rounds,
            requests_per_s=args.rate,
            figures=figures,
            say=_say,
        )
    except KeyboardInterrupt:
        _say("interrupted; the page has what was measured until now")
    return {
        "kind": "compare",
        "conditions": _about(args, rounds=args.rounds, requests_per_s=args.rate),
        "ours": OURS,
        "peers": [contender.name for contender in contenders if contender.is_peer],
        "tasks": {
            count: {name: one.to_json() for name, one in found.items()} for count, found in figures.items()
        },
    }


def _overhead(args: argparse.Namespace) -> dict[str, Any]:
    found = measure_overhead(
        args.model, _ours(), _places(args), at_once=args.at_once, rounds=args.rounds, say=_say
    )
    return {
        "kind": "overhead",
        "conditions": _about(args, rounds=args.rounds, at_once=args.at_once),
        "found": found,
    }


def _soak(args: argparse.Namespace) -> dict[str, Any]:
    server, target = _one(args.only).run(_places(args), args.model)
    with server:
        endurance = endure(
            server,
            target,
            clients=args.clients,
            seconds=args.seconds,
            leaving=args.leaving,
            new_tokens=args.new_tokens,
            seed=args.seed,
            say=_say,
        )
    return {
        "kind": "soak",
        "conditions": _about(args, leaving=args.leaving, seed=args.seed),
        "found": endurance.to_json(),
    }


def _load(args: argparse.Namespace) -> None:
    url = urlsplit(args.url)
    if url.scheme != "http" or url.hostname is None:
        raise SystemExit(f"{args.url}: give an address as http://HOST:PORT")
    target = Target(url.hostname, url.port or 80, args.model, key=args.key)
    questions = mixed(args.requests, seed=args.seed, requests_per_s=args.rate)
    answers = run_clients(ask_all(target, questions, at_once=args.at_once))
    require_right(answers, [question.new_tokens for question in questions])
    for metric, value in figures_of(answers).items():
        print(f"{metric:12} {value:.1f}")


def _ours() -> Contender:
    return next(contender for contender in CONTENDERS if contender.name == OURS)


def _one(key: str) -> Contender:
    return next(contender for contender in CONTENDERS if contender.key == key)


def _places(args: argparse.Namespace) -> Places:
    return Places(args.environments, args.models, args.threads)


def _about(args: argparse.Namespace, **more: Any) -> dict[str, Any]:
    return conditions(["onnxgen"], threads=args.threads, model=args.model, **more)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = parser.add_subparsers(dest="kind", required=True)
    keys = [contender.key for contender in CONTENDERS]
    default = [key for key in keys if key != "ort"]

    compare = _measuring(kinds, "compare", "servers beside each other")
    compare.add_argument("--only", type=_texts, default=default, help=f"some of {', '.join(keys)}")
    compare.add_argument(
        "--at-once", type=_counts, default=[1, 8, MOST_AT_ONCE], help="requests, such as 1,8,16"
    )
    compare.add_argument("--rounds", type=int, default=3)
    compare.add_argument("--rate", type=float, metavar="R", help="requests come at random, R a second")

    overhead = _measuring(kinds, "overhead", "onnxgen's server beside its engine without one")
    overhead.add_argument("--at-once", type=int, default=16)
    overhead.add_argument("--rounds", type=int, default=5)

    soak = _measuring(kinds, "soak", "many clients for minutes; ends with 1 if an answer is wrong")
    soak.add_argument("--only", choices=keys, default=keys[0])
    soak.add_argument("--clients", type=int, default=64)
    soak.add_argument("--seconds", type=float, default=300.0)
    soak.add_argument("--new-tokens", type=int, default=48)
    soak.add_argument("--leaving", type=float, default=0.0, help="share of requests whose client goes early")
    soak.add_argument("--seed", type=int, default=0)

    load = kinds.add_parser("load", help="ask a server that runs already")
    load.add_argument("url", help="such as http://127.0.0.1:8080")
    load.add_argument("--model", required=True, help="what requests call the model")
    load.add_argument("--key", help="an API key")
    load.add_argument("--requests", type=int, default=16)
    load.add_argument(
        "--at-once", type=int, metavar="N", help="N clients, each asking when it has its answer"
    )
    load.add_argument("--rate", type=float, metavar="R", help="requests come at random, R a second")
    load.add_argument("--seed", type=int, default=1)

    page = kinds.add_parser("page", help="reports as one page")
    page.add_argument("reports", type=Path, nargs="+")
    page.add_argument("--write", type=Path, metavar="FILE")

    args = parser.parse_args()
    unknown = [key for key in args.only if key not in keys] if args.kind == "compare" else []
    if unknown:
        parser.error(f"--only: there is no {', '.join(unknown)}; there are {', '.join(keys)}")
    if args.kind == "compare" and max(args.at_once) > MOST_AT_ONCE:
        parser.error(f"--at-once: servers are started for {MOST_AT_ONCE} requests, got {max(args.at_once)}")
    return args


def _measuring(kinds: Any, name: str, what: str) -> argparse.ArgumentParser:
    parser = kinds.add_parser(name, help=what)
    parser.add_argument("--environments", type=Path, required=True, help="folder of virtual environments")
    parser.add_argument("--models", type=Path, required=True, help="folder of models")
    parser.add_argument("--model", default=_MODEL)
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--json", type=Path, metavar="FILE", help="every value")
    return parser


def _texts(text: str) -> list[str]:
    return text.split(",")


def _counts(text: str) -> list[int]:
    return [int(count) for count in text.split(",")]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
