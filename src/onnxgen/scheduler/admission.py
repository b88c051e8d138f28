"""Whether a job is taken in, and with how many tokens."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from onnxgen.errors import NeverFitsError, QueueFullError
from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.job import Job
from onnxgen.scheduler.room import Room


class Outcome(Enum):
    """What became of a job that was added."""

    QUEUED = "queued"
    CAPPED = "capped"


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer to a job that was added.

    Attributes:
        outcome: Whether it got all that it asked for.
        max_tokens: Prompt and answer together get at most this many tokens.
    """

    outcome: Outcome
    max_tokens: int


def admit(job: Job, room: Room) -> Admission:
    """Grant ``job`` its tokens, or fewer where it allows that.

    Raises:
        NeverFitsError: It would not fit even if it were alone.
    """
    if job.width > room.max_seqs:
        raise NeverFitsError(
            f"a request asks for {job.width} sequences at once, the scheduler runs at most {room.max_seqs} "
            "(max_seqs); ask for fewer samples"
        )
    if room.fits_alone(job, job.max_tokens):
        return Admission(Outcome.QUEUED, job.max_tokens)
    longest = room.longest(job)
    prompt_fits = longest > len(job.tokens)
    if job.allow_cap and prompt_fits:
        return Admission(Outcome.CAPPED, longest)
    advice = "ask for fewer, allow the answer to be capped" if prompt_fits else "shorten the prompt"
    raise NeverFitsError(
        f"a request asks for {job.max_tokens} tokens ({len(job.tokens)} of prompt, "
        f"{job.max_tokens - len(job.tokens)} of answer), the cache holds {longest} {room.why(job)}; {advice}, "
        "or give the cache more memory"
    )


def refuse_when_full(config: SchedulerConfig, *, num_waiting: int, free_seats: int) -> None:
    """Raise when as many jobs wait as may, besides those for whom there are seats in the next step.

    Raises:
        QueueFullError: With both numbers.
    """
    if config.max_waiting is not None and num_waiting - free_seats >= config.max_waiting:
        raise QueueFullError(
            f"{num_waiting} requests wait for {free_seats} free of {config.max_seqs} sequences, and at most "
            f"{config.max_waiting} more may wait (max_waiting); try again later"
        )
