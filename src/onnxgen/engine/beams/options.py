"""`BeamOptions`: what a beam search is asked for, and `BeamRules`: how it counts where implementations differ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from onnxgen.engine.sampling.checks import check_integer, check_number
from onnxgen.errors import OptionError

EarlyStopping = bool | Literal["never"]

MAX_BEAMS = 256
"""Beams of one prompt: each holds a whole sequence in the cache."""


@dataclass(frozen=True, slots=True)
class BeamOptions:
    """What a beam search is asked for. Names and defaults are those of Hugging Face transformers.

    Attributes:
        num_beams: Continuations of a prompt that are followed at once.
        num_return_sequences: How many of the best are given, at most ``num_beams``.
        length_penalty: Sums of log probabilities are divided by length to the power of this: above 0 favours long
            answers, below 0 short ones, 0 counts the sum alone.
        early_stopping: When the search for a prompt ends that has ``num_beams`` finished answers. True: at once.
            False: when no beam would be better if it ended at its present length. "never": when no beam can become
            better, at the longest length if ``length_penalty`` is above 0 and else at its present one.
        num_beam_groups: Beams are searched in so many groups of one size, one after the other in each step, which
            ``diversity_penalty`` keeps apart (arXiv:1610.02424). It divides ``num_beams``.
        diversity_penalty: Taken from the log probability of a token for each beam of earlier groups that goes on with
            it in this step; needs several groups, as they need it.

    Raises:
        OptionError: Naming the option, the value and the range.
    """

    num_beams: int
    num_return_sequences: int = 1
    length_penalty: float = 1.0
    early_stopping: EarlyStopping = False
    num_beam_groups: int = 1
    diversity_penalty: float = 0.0

    def __post_init__(self) -> None:
        """Check types, ranges, and that options fit each other."""
        check_integer("num_beams", self.num_beams, low=1, high=MAX_BEAMS)
        check_integer("num_beam_groups", self.num_beam_groups, low=1)
        check_integer("num_return_sequences", self.num_return_sequences, low=1)
        check_number("length_penalty", self.length_penalty, low=-math.inf, high=math.inf)
        check_number("diversity_penalty", self.diversity_penalty, low=0.0, high=math.inf)
        if not isinstance(self.early_stopping, bool) and self.early_stopping != "never":
            raise OptionError(f"early_stopping must be True, False or 'never', got {self.early_stopping!r}")
        if self.num_return_sequences > self.num_beams:
            raise OptionError(
                f"num_return_sequences={self.num_return_sequences} needs as many beams, num_beams is {self.num_beams}"
            )
        if self.num_beams % self.num_beam_groups:
            raise OptionError(
                f"num_beam_groups must divide num_beams, got {self.num_beam_groups} groups of {self.num_beams} beams"
            )
        if (self.num_beam_groups > 1) != (self.diversity_penalty > 0):
            raise OptionError(
                f"num_beam_groups={self.num_beam_groups} and diversity_penalty={self.diversity_penalty:g} do not go "
                "together: groups that nothing keeps apart find the same answers, and the penalty needs groups"
            )

    @property
    def group_beams(self) -> int:
        """Beams of a group."""
        return self.num_beams // self.num_beam_groups


@dataclass(frozen=True, slots=True)
class BeamRules:
    """How a beam search counts, where implementations differ.

    Attributes:
        length_of: What ``length_penalty`` sees as a hypothesis's length: the whole ``"sequence"``, prompt included and
            its end token not, or the ``"answer"``, its end token included.
        processed: What penalties and bans are applied to: ``"logits"``, of which the log probabilities are then
            taken, or ``"logprobs"``, which then need not sum to 1.
        best_of: What might still be better than a full set of hypotheses: the best of a step's ``"candidates"``,
            those that ended a sequence included, or of the ``"beams"`` that go on.
        limit_ends: What becomes a hypothesis at the longest length: the best ``"candidates"`` of the last step,
            whichever token they have, or the ``"beams"`` that went on, unless the set was full without them.
    """

    length_of: Literal["sequence", "answer"]
    processed: Literal["logits", "logprobs"]
    best_of: Literal["candidates", "beams"]
    limit_ends: Literal["candidates", "beams"]


TRANSFORMERS = BeamRules(length_of="answer", processed="logprobs", best_of="beams", limit_ends="candidates")
"""As Hugging Face transformers 5 counts, and onnxgen's own interface."""

ONNXRUNTIME_GENAI = BeamRules(
    length_of="sequence", processed="logits", best_of="candidates", limit_ends="beams"
)
"""As onnxruntime-genai counts."""
