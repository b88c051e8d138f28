"""What a change of configuration leaves over its budgets."""

from __future__ import annotations

from dataclasses import dataclass

from onnxgen.scheduler.job import Job


@dataclass(frozen=True, slots=True)
class Overage:
    """By how much running jobs exceed new budgets; the next plans preempt until they do not.

    Attributes:
        seqs: Sequences too many.
        cache_bytes: Bytes of cache too many.
        too_large: Jobs that would be refused now. They keep what they were granted, and run alone at worst; to
            end them is up to the caller.
    """

    seqs: int = 0
    cache_bytes: int = 0
    too_large: tuple[Job, ...] = ()
