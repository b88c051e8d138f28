"""Feeds broken models to the loader, shape inference and session compilation until the time is up.

Whatever they do, it must be success or an error of ours: anything else (other exceptions, a crash, a hang, too much
memory) is reported with a file that reproduces it.

    python scripts/fuzz_graph.py --seconds 60 --seed 1 --findings FOLDER
    python scripts/fuzz_graph.py --reproduce FOLDER/finding-....onnx

Models are mutated in a child process with a memory limit and a time limit per case, so that a crash costs one case.
With atheris installed, ``--atheris`` hands the mutation of bytes to its coverage-guided engine instead.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import onnx
from google.protobuf.message import Message

CASE_SECONDS = 20
MEMORY_BYTES = 4 * 2**30


def main() -> int:
    arguments = parse_arguments()
    if arguments.reproduce:
        case(arguments.reproduce.read_bytes(), arguments.stages)
        print("an outcome that is allowed")
        return 0
    seeds = valid_models()
    if arguments.atheris:
        return run_atheris(arguments, seeds)
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}, {len(seeds)} models to start from", flush=True)
    findings = fuzz(seeds, arguments, seed)
    return 1 if findings else 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), help="folder for reproducers")
    parser.add_argument(
        "--stages", choices=("load", "shapes", "session"), default="session", help="how far to go"
    )
    parser.add_argument("--reproduce", type=Path, help="run one file and let it fail")
    parser.add_argument("--atheris", action="store_true")
    return parser.parse_args()


def case(content: bytes, stages: str) -> str:
    """Run one model; returns what happened, and lets what is not allowed through."""
    from onnxgen.errors import OnnxgenError
    from onnxgen.graph.loader import load_graph

    try:
        loaded = load_graph(content)
        if stages != "load":
            from onnxgen.graph.shapes import infer_shapes

            infer_shapes(loaded.model)
        if stages == "session":
            from onnxgen.graph.session import InferenceSession

            InferenceSession(content)
    except OnnxgenError as error:
        return type(error).__name__
    return "loaded"


def fuzz(seeds: list[bytes], arguments: argparse.Namespace, seed: int) -> int:
    """Mutate and run until the time is up; returns the number of distinct findings."""
    end = time.monotonic() + arguments.seconds
    outcomes: Counter[str] = Counter()
    kinds: dict[str, Path] = {}
    rng = random.Random(seed)
    worker = Worker(arguments.stages)
    shown = time.monotonic()
    try:
        while time.monotonic() < end:
            content = mutate(rng, seeds)
            outcome, detail = worker.run(content)
            outcomes[outcome] += 1
            if outcome.startswith("!"):
                kind = f"{outcome} {last_own_line(detail)}"
                if kind not in kinds:
                    kinds[kind] = save(arguments.findings, content, detail, len(kinds))
                    print(f"FINDING {kind}\n  {kinds[kind]}", flush=True)
            if time.monotonic() - shown > 30:
                shown = time.monotonic()
                print(f"{sum(outcomes.values())} cases, {len(kinds)} findings", flush=True)
    finally:
        worker.stop()
    print(f"{sum(outcomes.values())} cases: {dict(outcomes.most_common())}; {len(kinds)} findings")
    return len(kinds)


def last_own_line(detail: str) -> str:
    lines = [
        line.strip() for line in detail.splitlines() if "onnxgen" in line and line.strip().startswith("File")
    ]
    last = detail.strip().splitlines()[-1][:200] if detail.strip() else ""
    return f"{lines[-1] if lines else ''} {last.split(':')[0]}"


def save(folder: Path, content: bytes, detail: str, number: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"finding-{time.strftime('%H%M%S')}-{number}.onnx"
    path.write_bytes(content)
    path.with_suffix(".txt").write_text(detail, encoding="utf-8")
    return path


class Worker:
    """A child process that runs cases; a new one takes its place when it dies or hangs."""

    def __init__(self, stages: str) -> None:
        self._stages = stages
        self._context = multiprocessing.get_context("spawn")
        self._start()

    def _start(self) -> None:
        self._pipe, child = self._context.Pipe()
        self._process = self._context.Process(target=work, args=(child, self._stages), daemon=True)
        self._process.start()
        child.close()
        self._pipe.recv()  # its imports are done

    def run(self, content: bytes) -> tuple[str, str]:
        """What happened, and its traceback when that is not allowed (then it begins with ``!``)."""
        try:
            self._pipe.send_bytes(content)
            if self._pipe.poll(CASE_SECONDS):
                return self._pipe.recv()
            outcome = ("!hang", f"no answer within {CASE_SECONDS} seconds")
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join(5)
            outcome = ("!crash", f"the process ended with exit code {self._process.exitcode}")
        self.stop()
        self._start()
        return outcome

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def work(pipe, stages: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    warnings.simplefilter("ignore")
    case(valid_models()[0], stages)
    resource.setrlimit(resource.RLIMIT_AS, (used_bytes() + MEMORY_BYTES, resource.RLIM_INFINITY))
    pipe.send("ready")
    while True:
        try:
            content = pipe.recv_bytes()
        except EOFError:
            return
        try:
            outcome = (case(content, stages), "")
        except BaseException as error:  # noqa: BLE001 - everything is a finding here
            outcome = (f"!{type(error).__name__}", traceback.format_exc())
        pipe.send(outcome)


def used_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def valid_models() -> list[bytes]:
    """Small models of the standard's node tests, with functions, inner graphs and every kind of tensor."""
    from onnx.backend.test.loader import load_model_tests

    warnings.simplefilter("ignore")
    models = [test.model.SerializeToString() for test in load_model_tests(kind="node") if test.model]
    return [content for content in models if len(content) < 20_000]


def mutate(rng: random.Random, seeds: list[bytes]) -> bytes:
    """One broken model: bytes of a valid one changed, or its fields, or both."""
    content = rng.choice(seeds)
    if rng.random() < 0.7:
        model = onnx.ModelProto.FromString(content)
        for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
            mutate_message(rng, model)
        content = model.SerializePartialToString()
    if rng.random() < 0.5:
        content = mutate_bytes(rng, content, seeds)
    return content


def mutate_bytes(rng: random.Random, content: bytes, seeds: list[bytes]) -> bytes:
    data = bytearray(content)
    kind = rng.randrange(5)
    if not data:
        return bytes(rng.randbytes(rng.randrange(64)))
    if kind == 0:
        for _ in range(rng.choice((1, 2, 8, 64))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[rng.randrange(len(data)) :]
    elif kind == 2:
        start = rng.randrange(len(data))
        del data[start : start + rng.choice((1, 4, 100))]
    elif kind == 3:
        other = rng.choice(seeds)
        start, end = sorted(rng.randrange(len(other) + 1) for _ in range(2))
        place = rng.randrange(len(data))
        data[place:place] = other[start:end]
    else:
        place = rng.randrange(len(data))
        data[place : place + 4] = rng.choice(
            (b"\xff" * 4, b"\xff" * 10 + b"\x01", b"\x00" * 4, b"\x80\x80\x80\x01")
        )
    return bytes(data)


def mutate_message(rng: random.Random, model: Message) -> None:
    """Change one field of one message, chosen anywhere in the model."""
    message = model
    while True:
        inner = messages_in(message)
        if not inner or rng.random() < 0.25:
            break
        message = rng.choice(inner)
    fields = message.DESCRIPTOR.fields
    field = rng.choice(fields)
    value = getattr(message, field.name)
    repeated = field.is_repeated
    if rng.random() < 0.25:
        message.ClearField(field.name)
    elif field.message_type is not None:
        if repeated:
            mutate_list_of_messages(rng, value)
        else:
            value.SetInParent()
    elif repeated:
        mutate_list(rng, value, field)
    else:
        setattr(message, field.name, scalar(rng, field, value, model))


def messages_in(message: Message) -> list[Message]:
    found: list[Message] = []
    for field, value in message.ListFields():
        if field.message_type is not None:
            found.extend(value if field.is_repeated else [value])
    return found


def mutate_list_of_messages(rng: random.Random, value) -> None:
    kind = rng.randrange(4)
    if kind == 0 or not value:
        value.add()
    elif kind == 1:
        del value[rng.randrange(len(value))]
    elif kind == 2:
        value.add().CopyFrom(rng.choice(value))
    else:
        one, other = rng.choice(value), rng.choice(value)
        if one is not other:
            one.CopyFrom(other)


def mutate_list(rng: random.Random, value, field) -> None:
    kind = rng.randrange(4)
    if kind == 0 and value:
        del value[rng.randrange(len(value))]
    elif kind == 1 and value:
        value[rng.randrange(len(value))] = scalar(rng, field, rng.choice(value), None)
    elif kind == 2 and value:
        value.append(rng.choice(value))
    else:
        value.extend(
            scalar(rng, field, field.default_value or 0, None) for _ in range(rng.choice((1, 2, 1000)))
        )


def scalar(rng: random.Random, field, value, model):
    kind = field.cpp_type
    if kind == field.CPPTYPE_ENUM:
        return rng.choice(field.enum_type.values).number
    if kind in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32):
        return rng.choice((0, 1, 2, 7, 9, 16, 22, 27, 2**31 - 1))
    if kind in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64):
        signed = kind == field.CPPTYPE_INT64
        choices = [0, 1, 2, 3, 2**31, 2**32, 2**40, 2**63 - 1]
        return rng.choice([*choices, -1, -2, -(2**63)] if signed else choices)
    if kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice((0.0, 1.0, -1.0, 1e30, float("nan"), float("inf")))
    if kind == field.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if field.type == field.TYPE_BYTES:
        return bytes(rng.randbytes(rng.choice((0, 1, 3, 4, 8, 64))))
    return text(rng, value, model)


def text(rng: random.Random, value, model) -> str:
    names = [
        "",
        "x",
        "y",
        "ai.onnx",
        "com.microsoft",
        "Constant",
        "If",
        "Loop",
        "Reshape",
        "../x",
        "\0",
        "é" * 300,
    ]
    if isinstance(model, onnx.ModelProto):
        for node in model.graph.node:
            names += [*node.input, *node.output, node.op_type]
    return rng.choice([*names, f"{value}x"])


def run_atheris(arguments: argparse.Namespace, seeds: list[bytes]) -> int:
    import atheris

    corpus = arguments.findings / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate(seeds):
        (corpus / f"{number}.onnx").write_bytes(content)
    atheris.instrument_all()
    limits = [
        f"-max_total_time={int(arguments.seconds)}",
        f"-timeout={CASE_SECONDS}",
        f"-rss_limit_mb={MEMORY_BYTES >> 20}",
    ]
    atheris.Setup(
        [sys.argv[0], *limits, str(corpus)], lambda content: case(content, arguments.stages) and None
    )
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
