"""Is it faster to swap a sequence out and in, or to compute it again?"""

from __future__ import annotations

from onnxgen.scheduler.plan import PreemptionMode


class PreemptionCosts:
    """Estimates from what the engine measures, as moving averages.

    Attributes:
        seconds_per_token: Time to compute a token of a prompt; None: not measured yet.
        seconds_per_byte: Time to move a byte of cache to a tier or back; None: not measured yet.
    """

    def __init__(self, *, smoothing: float = 0.2) -> None:
        """``smoothing``: how much a new measurement counts against all earlier ones, in (0, 1]."""
        self._smoothing = smoothing
        self.seconds_per_token: float | None = None
        self.seconds_per_byte: float | None = None

    def observe_prefill(self, num_tokens: int, seconds: float) -> None:
        """A step of so many tokens, with chunks of prompts among them, took so long."""
        if num_tokens > 0:
            self.seconds_per_token = self._averaged(self.seconds_per_token, seconds / num_tokens)

    def observe_swap(self, num_bytes: int, seconds: float) -> None:
        """Moving so many bytes to a tier or back took so long."""
        if num_bytes > 0:
            self.seconds_per_byte = self._averaged(self.seconds_per_byte, seconds / num_bytes)

    def choose(self, *, num_tokens: int, num_bytes: int) -> PreemptionMode:
        """What to do with a sequence of ``num_tokens`` tokens that fill ``num_bytes`` of cache.

        While nothing is measured it is swapped, which costs no arithmetic and is how swapping gets measured.
        """
        if self.seconds_per_token is None or self.seconds_per_byte is None:
            return "swap"
        out_and_in = 2 * num_bytes * self.seconds_per_byte
        return "swap" if out_and_in <= num_tokens * self.seconds_per_token else "recompute"

    def _averaged(self, average: float | None, now: float) -> float:
        return now if average is None else average + self._smoothing * (now - average)
