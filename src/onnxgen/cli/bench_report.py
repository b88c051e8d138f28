"""What ``onnxgen bench`` found, as JSON and as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onnxgen.cli.bench_tasks import Rates, Task
from onnxgen.cli.terminal import columns
from onnxgen.foundations.disk import format_bytes

if TYPE_CHECKING:
    from onnxgen.backends.profile import StepProfile
    from onnxgen.cli.bench_roof import Roof

_KERNELS_SHOWN = 12
_PROFILED = ("prefill", "decode")


@dataclass(frozen=True, slots=True)
class BenchReport:
    """What was measured; None and empty where it was not.

    Attributes:
        model: What the user calls it.
        backend: Who was measured.
        threads: Threads of one operator.
        load_s: From the folder to a loaded model.
        rss_load: Memory of the process after that, in bytes.
        rss_peak: The most memory of the process, in bytes.
        tasks: What was measured, in order.
        rates: Tokens per second.
        other: Name of the backend that took turns with it.
        other_rates: Its tokens per second.
        prompt_profile: Where the time of a prompt went.
        decode_profile: Where the time of decode steps went.
        roof: What the machine allows.
    """

    model: str
    backend: str
    threads: int
    load_s: float
    rss_load: int | None
    rss_peak: int | None
    tasks: tuple[Task, ...]
    rates: Rates
    other: str | None = None
    other_rates: Rates | None = None
    prompt_profile: StepProfile | None = None
    decode_profile: StepProfile | None = None
    roof: Roof | None = None

    @property
    def ratios(self) -> Rates:
        """Our rates over those of the other backend."""
        other = self.other_rates or {}
        return {metric: rate / other[metric] for metric, rate in self.rates.items() if metric in other}


def as_json(report: BenchReport) -> dict[str, Any]:
    """The keys that ``--json`` promises; what was not measured is absent."""
    found: dict[str, Any] = {"model": report.model, "backend": report.backend, "load_s": report.load_s}
    for key, size in (("rss_load_mb", report.rss_load), ("rss_peak_mb", report.rss_peak)):
        if size is not None:
            found[key] = round(size / 1e6, 1)
    for metric, rate in report.rates.items():
        place = found
        *path, last = metric.split(".")
        for key in path:
            place = place.setdefault(key, {})
        place[last] = round(rate, 2)
    if report.decode_profile is not None and report.decode_profile.seconds:
        found["overhead_share"] = round(overhead_share(report.decode_profile), 4)
    if report.ratios:
        found["ratio"] = {metric: round(ratio, 3) for metric, ratio in report.ratios.items()}
    return found


def as_text(report: BenchReport) -> str:
    """Tables for people."""
    parts = [_head(report), _rate_table(report)]
    if report.roof is not None:
        parts.append(_roof_text(report.roof))
    profiles = {"a prompt": report.prompt_profile, "decode steps": report.decode_profile}
    found = [_profile_table(what, profile) for what, profile in profiles.items() if profile is not None]
    is_asked = any(task.kind in _PROFILED for task in report.tasks)
    parts += found or ([f"backend {report.backend} does not say where the time goes"] if is_asked else [])
    return "\n\n".join(part for part in parts if part)


def overhead_share(profile: StepProfile) -> float:
    """Share of the steps' time in which no kernel ran."""
    return max(0.0, 1 - profile.kernel_seconds / profile.seconds)


def _head(report: BenchReport) -> str:
    memory = [
        f"{format_bytes(size)} {when}"
        for size, when in ((report.rss_load, "after loading"), (report.rss_peak, "at most"))
        if size is not None
    ]
    lines = [
        f"{report.model}: backend {report.backend}, {report.threads} thread{'s' * (report.threads != 1)}",
        f"loaded in {report.load_s:.2f} s" + (f"; memory {', '.join(memory)}" if memory else ""),
    ]
    return "\n".join(lines)


def _rate_table(report: BenchReport) -> str:
    if not report.rates:
        return ""
    other = report.other_rates or {}
    bound = ["of the bound"] if report.roof is not None else []
    rows = [["", "tok/s", *bound, *([f"x {report.other}'s tok/s"] if other else [])]]
    for task in report.tasks:
        for metric in task.metrics:
            rate = report.rates[metric]
            row = [_label(metric), f"{rate:.1f}"]
            if report.roof is not None:
                row.append("" if metric.endswith("e2e_tok_s") else f"{rate / report.roof.rate(task):.0%}")
            if metric in other:
                row.append(f"{report.ratios[metric]:.2f} x {other[metric]:.1f}")
            rows.append(row)
    return columns(rows)


def _label(metric: str) -> str:
    kind, size, *rest = metric.split(".")
    if kind == "streams":
        what = "decode" if rest == ["decode_tok_s"] else "end to end"
        return f"{size} stream{'s' * (size != '1')}, {what}"
    return f"prefill {size}" if kind == "prefill" else f"decode at {size}"


def _roof_text(roof: Roof) -> str:
    kind = "byte" if roof.work.is_quantized else "float32"
    return (
        f"bound: {roof.bytes_per_s / 1e9:.1f} GB/s, {roof.operations_per_s / 1e9:.0f} G {kind} operations/s; "
        f"weights {format_bytes(roof.work.weight_bytes)}; attention and caches not counted"
    )


def _profile_table(what: str, profile: StepProfile) -> str:
    rows = [[f"time of {what}", "calls", "ms", "share"]]
    for kernel in profile.kernels[:_KERNELS_SHOWN]:
        rows.append(_profile_row(kernel.name, str(kernel.calls), kernel.seconds, profile.seconds))
    rest = profile.kernels[_KERNELS_SHOWN:]
    if rest:
        calls, seconds = sum(k.calls for k in rest), sum(k.seconds for k in rest)
        rows.append(_profile_row(f"{len(rest)} others", str(calls), seconds, profile.seconds))
    rows.append(
        _profile_row("outside kernels", "", profile.seconds - profile.kernel_seconds, profile.seconds)
    )
    return columns(rows)


def _profile_row(name: str, calls: str, seconds: float, whole: float) -> list[str]:
    return [name, calls, f"{seconds * 1e3:.2f}", f"{seconds / whole:.1%}"]
