"""`DraftModelOptions`: how a draft model is used."""

from __future__ import annotations

from dataclasses import dataclass

from onnxgen.errors import ConfigError


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
        for name in ("cache_mb", "cache_tokens", "catch_up_tokens"):
            value: object = getattr(self, name)
            if value is None and name != "catch_up_tokens":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"{name} of a draft model is {value!r}; it must be an integer from 1 on")
        if self.cache_mb is not None and self.cache_tokens is not None:
            raise ConfigError(
                f"cache_mb={self.cache_mb} and cache_tokens={self.cache_tokens} both size the cache of a draft model; "
                "give one of them"
            )
        share: object = getattr(self, "min_confidence")  # noqa: B009 - callers may have no checker
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ConfigError(f"min_confidence of a draft model is {share!r}; it must lie in [0, 1]")
