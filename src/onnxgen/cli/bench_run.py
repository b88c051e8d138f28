"""One run of ``onnxgen bench``: load, warm up, measure in turns, look where the time goes."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path
from time import perf_counter

from onnxgen.backends import load_backend
from onnxgen.backends.base import Backend
from onnxgen.backends.profile import ProfiledBackend, StepProfile
from onnxgen.backends.timed_steps import Answers
from onnxgen.cli.bench_report import BenchReport
from onnxgen.cli.bench_roof import measure_roof
from onnxgen.cli.bench_tasks import Task, measure, warm_up
from onnxgen.cli.terminal import note
from onnxgen.errors import OptionError
from onnxgen.foundations.cpuinfo import default_threads
from onnxgen.foundations.process_memory import peak_resident_bytes, resident_bytes
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata import load_model_spec

_OURS = "measured"


def run_bench(
    folder: Path,
    name: str,
    tasks: Sequence[Task],
    *,
    must_fit: Collection[str],
    config: RuntimeConfig,
    against: str | None,
    repeats: int,
    with_roof: bool,
) -> BenchReport:
    """Measure a model folder.

    Args:
        folder: The model.
        name: What the report calls it.
        tasks: What to measure.
        must_fit: Kinds of tasks that were asked for; others are left out where the model's context is too short.
        config: How to run the model.
        against: Name of a backend that takes turns with it.
        repeats: Rounds of each task.
        with_roof: Measure what the machine allows, too.

    Raises:
        OptionError: A task that was asked for does not fit the model's context.
        ConfigError: There is no such backend.
        BackendError: A backend failed.
    """
    started = perf_counter()
    spec = load_model_spec(folder)
    measured = load_backend(spec.decoder, config)
    load_s, rss_load = perf_counter() - started, resident_bytes()
    tasks = _fitting(tasks, must_fit, measured.capabilities.max_context)
    backends, vocab, chunk = {_OURS: measured}, spec.vocab_size, config.prefill_chunk_tokens
    warm_up(tasks, measured, vocab, chunk_tokens=chunk)
    rss_peak = peak_resident_bytes()
    if against is not None:
        backends[against] = load_backend(spec.decoder, dataclasses.replace(config, backend=against))
        warm_up(tasks, backends[against], vocab, chunk_tokens=chunk)
    medians = measure(
        tasks,
        backends,
        vocab,
        chunk_tokens=chunk,
        repeats=repeats,
        done=lambda task: note(f"measured {task.kind} {task.size}"),
    )
    if against is None:
        rss_peak = peak_resident_bytes()
    threads = config.threads or default_threads()
    report = BenchReport(
        model=name,
        backend=_name_of(measured),
        threads=threads,
        load_s=round(load_s, 3),
        rss_load=rss_load,
        rss_peak=rss_peak,
        tasks=tuple(tasks),
        rates=medians[_OURS],
        other=against,
        other_rates=medians[against] if against is not None else None,
        prompt_profile=_profile(tasks, "prefill", measured, vocab, chunk_tokens=chunk),
        decode_profile=_profile(tasks, "decode", measured, vocab, chunk_tokens=chunk),
        roof=measure_roof(spec.decoder.path, vocab, threads=threads) if with_roof else None,
    )
    for backend in backends.values():
        backend.close()
    return report


def _fitting(tasks: Sequence[Task], must_fit: Collection[str], max_context: int) -> list[Task]:
    """The tasks that fit the context.

    Raises:
        OptionError: One that must fit does not.
    """
    too_long = [task for task in tasks if task.context > max_context]
    for task in too_long:
        message = (
            f"--{task.kind} {task.size} takes {task.context} tokens of context; the model has {max_context}"
        )
        if task.kind in must_fit:
            raise OptionError(message)
        note(f"{message}; left out")
    return [task for task in tasks if task not in too_long]


def _profile(
    tasks: Sequence[Task], kind: str, backend: Backend, vocab_size: int, *, chunk_tokens: int
) -> StepProfile | None:
    """Where the time of the first task of a kind goes; None where there is none, or the backend does not say."""
    task = next((task for task in tasks if task.kind == kind), None)
    if task is None or not isinstance(backend, ProfiledBackend):
        return None
    with Answers(backend, [[0]], 1, chunk_tokens=1) as small:
        backend.profile(small.read_prompts)  # loads, or compiles, what only profiles need
    prompts = task.prompts(vocab_size)
    with Answers(backend, prompts, task.new_tokens, chunk_tokens=chunk_tokens) as answers:
        if kind == "prefill":
            return backend.profile(answers.read_prompts)
        answers.read_prompts()
        return backend.profile(lambda: answers.write(task.new_tokens - 1))


def _name_of(backend: Backend) -> str:
    """What ``auto`` chose: each backend is a package with the name it is asked for by."""
    return type(backend).__module__.removeprefix("onnxgen.backends.").partition(".")[0]
