"""What is measured of each contender."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.measuring import prompt_ids
from benchmarks.peers.worker import Worker

STREAM_PROMPT = 128
_VOCAB_SIZE = 40000  # all models have at least so many


@dataclass(frozen=True)
class Task:
    """Something that a worker does and that gives one or two figures, all in tokens per second.

    Attributes:
        kind: ``prefill``, ``decode`` or ``streams``.
        size: Prompt tokens of the first two, sequences of the last.
    """

    kind: str
    size: int

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        return f"{self.kind}.{self.size}"

    def run(self, worker: Worker, new_tokens: int) -> dict[str, float]:
        """Do it once; rates by metric."""
        if self.kind == "prefill":
            answer = worker.ask("prefill", prompt=prompt_ids(self.size, _VOCAB_SIZE))
            return {f"prefill.{self.size}": self.size / answer["seconds"]}
        if self.kind == "decode":
            prompt = prompt_ids(self.size, _VOCAB_SIZE)
            answer = worker.ask("decode", prompt=prompt, new_tokens=new_tokens)
            return {f"decode.{self.size}": (new_tokens - 1) / answer["seconds"]}
        prompts = [prompt_ids(STREAM_PROMPT, _VOCAB_SIZE, seed=seed) for seed in range(self.size)]
        answer = worker.ask("streams", prompts=prompts, new_tokens=new_tokens)
        return {
            f"streams.{self.size}": self.size * (new_tokens - 1) / answer["decode_s"],
            f"e2e.{self.size}": self.size * new_tokens / answer["total_s"],
        }

    def bound(self, rate: Callable[[int, int, int], float]) -> dict[str, float]:
        """The best rates possible, where there are any, given one of tokens, wanted rows and prompt length."""
        if self.kind == "prefill":
            return {f"prefill.{self.size}": rate(self.size, 1, self.size)}
        if self.kind == "decode":
            return {f"decode.{self.size}": rate(1, 1, 0)}
        return {f"streams.{self.size}": rate(self.size, self.size, 0)}


SINGLE = (*(Task("prefill", n) for n in (128, 512, 2048)), *(Task("decode", n) for n in (128, 1024)))
PARALLEL = tuple(Task("streams", n) for n in (4, 8, 16))

TASKS = (*SINGLE, *PARALLEL)

# figures in the order of a table's columns, with their headings; True where less is better
COLUMNS = {
    "load_s": ("load s", True),
    "rss_load_mb": ("RSS after load, MB", True),
    "rss_peak_mb": ("RSS peak, MB", True),
    **{f"prefill.{n}": (f"prefill {n}", False) for n in (128, 512, 2048)},
    **{f"decode.{n}": (f"decode @{n}", False) for n in (128, 1024)},
    **{f"streams.{n}": (f"{n} streams", False) for n in (4, 8, 16)},
    **{f"e2e.{n}": (f"{n}, end to end", False) for n in (4, 8, 16)},
}
