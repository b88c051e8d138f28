"""`DraftModelOptions`: how a draft model is used."""

from __future__ import annotations

from dataclasses import dataclass

from onnxgen.engine.speculation.draft_budget import check_count, check_draft_budget

_WHOSE = "a draft model"


@dataclass(frozen=True, slots=True)
class DraftModelOptions:
    """How a draft model is used.

    Attributes:
        cache_mb: Memory for its keys and values, in MiB; sequences that find no room there go without drafts. None: what
            ``cache_tokens`` says, and without that 512.
        cache_tokens: The same in token positions; not together with ``cache_mb``.
        catch_up_tokens: The most tokens, of all sequences together, that it computes at once of those that it does not
            know well enough to guess: prompts, and answers that it was not asked about for long. It begins to guess once
            it is there, and other sequences wait no longer than that takes.
        min_confidence: Where nothing is drawn: a token that the draft model gives less than this probability is not
            guessed, nor what would follow it. Where tokens are drawn, an unsure guess is as good as any other as long as
            the model is unsure too, so there is no such bound.
    """

    cache_mb: int | None = None
    cache_tokens: int | None = None
    catch_up_tokens: int = 256
    min_confidence: float = 0.3

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            ConfigError: Naming the field, its value and the range.
        """
        check_draft_budget(
            _WHOSE,
            cache_mb=self.cache_mb,
            cache_tokens=self.cache_tokens,
            min_confidence=self.min_confidence,
        )
        check_count(_WHOSE, "catch_up_tokens", self.catch_up_tokens)
