"""What may be said of the answers that some clients got."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from benchmarks.http.answers import Answer
from benchmarks.serving.timeline import percentiles

# metrics in the order of a table's columns, with their headings; True where less is better
COLUMNS = {
    "new_rate": ("new tok/s", False),
    "ttft_p50_ms": ("first token p50, ms", True),
    "ttft_p99_ms": ("first token p99, ms", True),
    "itl_p50_ms": ("between pieces p50, ms", True),
    "itl_p99_ms": ("between pieces p99, ms", True),
    "server_cpus": ("server's CPUs", True),
    "client_percent": ("clients, % of a CPU", True),
    "rss_mb": ("RSS, MB", True),
}


def figures_of(answers: Sequence[Answer]) -> dict[str, float]:
    """Tokens per second from the first request to the last byte; times of first pieces and between pieces.

    A server may put several tokens into one piece, and the time between pieces is what a reader sees.
    """
    began, ended = min(a.sent_s for a in answers), max(a.ended_s for a in answers)
    first = [answer.piece_s[0] - answer.sent_s for answer in answers if answer.piece_s]
    pauses = [after - before for answer in answers for before, after in pairwise(answer.piece_s)]
    rate = sum(answer.new_tokens for answer in answers) / (ended - began)
    return {
        "new_rate": rate,
        **percentiles("ttft", first, (50, 99)),
        **percentiles("itl", pauses, (50, 99)),
    }


class WrongAnswersError(Exception):
    """Answers that are not what was asked for, so that no figure of them counts."""


def require_right(answers: Sequence[Answer], new_tokens: Sequence[int]) -> None:
    """Every answer is without problems and exactly as long as was asked for.

    Raises:
        WrongAnswersError: One is not; the message says which, and how many there are.
    """
    wrong = [
        f"answer {number}: {'; '.join(problems)}"
        for number, (answer, wanted) in enumerate(zip(answers, new_tokens, strict=True))
        if (problems := [*answer.problems, *_length_problem(answer, wanted)])
    ]
    if wrong:
        raise WrongAnswersError(f"{len(wrong)} of {len(answers)} answers are wrong; {wrong[0]}")


def _length_problem(answer: Answer, wanted: int) -> list[str]:
    if answer.problems or (answer.new_tokens, answer.finish_reason) == (wanted, "length"):
        return []
    return [
        f"{answer.new_tokens} tokens and finish reason {answer.finish_reason}, asked for {wanted} and length"
    ]
