"""What options of everything that guesses with a model have in common."""

from __future__ import annotations

from onnxgen.errors import ConfigError


def check_draft_budget(whose: str, *, cache_mb: object, cache_tokens: object, min_confidence: object) -> None:
    """Check memory and confidence.

    Args:
        whose: What guesses, for messages.
        cache_mb: Memory for keys and values, in MiB, or None.
        cache_tokens: The same in token positions, or None.
        min_confidence: Less probable tokens are not guessed.

    Raises:
        ConfigError: Naming the field, its value and the range.
    """
    for name, size in (("cache_mb", cache_mb), ("cache_tokens", cache_tokens)):
        if size is not None:
            check_count(whose, name, size)
    if cache_mb is not None and cache_tokens is not None:
        raise ConfigError(
            f"cache_mb={cache_mb} and cache_tokens={cache_tokens} both size the cache of {whose}; give one of them"
        )
    if (
        isinstance(min_confidence, bool)
        or not isinstance(min_confidence, int | float)
        or not 0 <= min_confidence <= 1
    ):
        raise ConfigError(f"min_confidence of {whose} is {min_confidence!r}; it must lie in [0, 1]")


def check_count(whose: str, name: str, value: object) -> None:
    """Check a number of things.

    Raises:
        ConfigError: It is no integer from 1 on.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{name} of {whose} is {value!r}; it must be an integer from 1 on")
