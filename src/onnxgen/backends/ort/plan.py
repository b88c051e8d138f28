"""What the three ways to run a step have in common."""

from __future__ import annotations

from typing import Protocol

from onnxgen.backends.base import Capabilities, KVCache, Step, StepOutput


class Plan(Protocol):
    """Executes checked steps with one session. Called by one thread at a time."""

    @property
    def capabilities(self) -> Capabilities:
        """What callers may rely on."""
        ...

    def create_cache(self, *, num_seqs: int, num_tokens: int) -> KVCache:
        """Allocate a cache that `execute` of this plan understands."""
        ...

    def repeat(self, step: Step, cache: KVCache) -> StepOutput | None:
        """Run an unchecked step that is like a checked one before it; None: check and `execute` it."""
        ...

    def execute(self, step: Step, cache: KVCache) -> StepOutput:
        """Run a step that `check_step` found nothing against."""
        ...
