"""What is known of a slot's content, and which steps may go on from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnxgen.backends.base import BlockCopy, Step
from onnxgen.errors import StepError


@dataclass(frozen=True, slots=True)
class Written:
    """What was written to a slot.

    Attributes:
        length: Positions that hold the sequence; what lies beyond is stale.
        long: Whether they were made with the rotary tables of long sequences.
    """

    length: int = 0
    long: bool = False


NOTHING = Written()


def is_long(length: int, switch_length: int | None) -> bool:
    """Whether a sequence of that length uses the rotary tables of long sequences; None: there are no others."""
    return switch_length is not None and length > switch_length


def after_copies(
    slots: Sequence[Written], copies: Sequence[BlockCopy], *, can_rewind: bool = True
) -> list[Written]:
    """What slots hold once copies have been done in order.

    Args:
        slots: What they hold before.
        copies: The copies.
        can_rewind: Whether the beginning of a sequence can be had of a longer one.

    Raises:
        StepError: A copy is of a part of what can only be had whole.
    """
    result = list(slots)
    for c in copies:
        source = result[c.source]
        if not can_rewind and c.num_tokens != source.length:
            raise StepError(
                f"slot {c.source} holds a state after {source.length} tokens; there is none after {c.num_tokens} to "
                f"copy to slot {c.target}"
            )
        if c.source != c.target:
            result[c.target] = Written(min(c.num_tokens, source.length), source.long)
    return result


def check_continues(
    step: Step, held: Sequence[Written], *, switch_length: int | None, can_rewind: bool = True
) -> None:
    """Refuse a step whose sequences do not go on from what their slots hold.

    Args:
        step: The step.
        held: What each sequence's slot holds, copies done.
        switch_length: Sequences longer than this use other rotary tables.
        can_rewind: Whether a sequence may be cut to any length.

    Raises:
        StepError: Naming the sequence and both lengths.
    """
    lengths: list[int] = step.context_lens.tolist()
    for i, (context_len, slot) in enumerate(zip(lengths, held, strict=True)):
        if context_len > slot.length:
            raise StepError(
                f"sequence {i} has context_len {context_len}, but only {slot.length} positions of its slot were "
                "written"
            )
        if not can_rewind and context_len not in (0, slot.length):
            raise StepError(
                f"sequence {i} holds {slot.length} tokens and cannot go back to {context_len}; only to 0 or "
                f"{slot.length}"
            )
        if switch_length is not None and context_len:
            total = context_len + int(step.query_lens[i])
            if is_long(total, switch_length) != slot.long:
                raise StepError(
                    f"sequence {i} goes to {total} tokens, on the other side of {switch_length}, where this "
                    f"model's rotary tables change; it must start again from its first token"
                )
