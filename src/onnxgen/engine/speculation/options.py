"""`Speculation`: whether tokens of an answer are guessed ahead, how, and how many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from onnxgen.engine.sampling.checks import check_integer
from onnxgen.errors import OptionError
from onnxgen.foundations.suggest import did_you_mean

SpeculationMethod = Literal["off", "auto", "prompt_lookup", "draft_model", "heads"]

MAX_DRAFT_TOKENS = 64
"""The longest draft that may be asked for."""

MOST_MATCH = 1024
"""The most tokens that a match can be asked to have at least."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """Whether tokens of an answer are guessed ahead, how, and how many.

    Attributes:
        method: Where guesses come from. ``prompt_lookup``: what followed the longest earlier occurrence of the
            sequence's end; answers keep the very tokens they have without. ``draft_model``: a smaller model.
            ``heads``: heads of the model's own, where it has some. ``auto``: heads if there are some, else the draft
            model, else prompt lookup. ``off``: nowhere.
        max_draft_tokens: The most tokens that are guessed at once, 1 to `MAX_DRAFT_TOKENS`.
        min_match: For ``prompt_lookup``: the shortest occurrence that counts, in tokens.
        adaptive: Guess as many tokens as pay by what steps were measured to take, and none where none do. False:
            always as many as there may be. Either way decides about speed only.
    """

    method: SpeculationMethod = "auto"
    max_draft_tokens: int = 8
    min_match: int = 2
    adaptive: bool = True

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            OptionError: Naming the option, the value and the range.
        """
        methods = get_args(SpeculationMethod)
        if self.method not in methods:
            raise OptionError(
                f"speculation.method must be one of {', '.join(methods)}, got {self.method!r:.60}"
                f"{did_you_mean(str(self.method), methods)}"
            )
        check_integer("speculation.max_draft_tokens", self.max_draft_tokens, low=1, high=MAX_DRAFT_TOKENS)
        check_integer("speculation.min_match", self.min_match, low=1, high=MOST_MATCH)
        if not isinstance(self.adaptive, bool):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may have no checker
            raise OptionError(f"speculation.adaptive must be True or False, got {self.adaptive!r}")


NO_SPECULATION = Speculation("off")
"""No tokens are guessed."""
