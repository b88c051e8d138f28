"""`check_room`: whether a prompt fits ``max_length``, and what to do where it does not."""

from __future__ import annotations

from onnxgen.errors import ContextLengthError


def check_room(count: int, *, held: int, most: int, context: int) -> None:
    """Refuse a prompt that does not fit.

    Args:
        count: Its tokens.
        held: Tokens there are already.
        most: ``max_length``.
        context: The model's context.

    Raises:
        ContextLengthError: With all numbers, and the option that helps.
    """
    if held + count <= most:
        return
    after = f" after the {held} there are" if held else ""
    advice = (
        f"set a larger max_length (the model's context is {context})"
        if held + count <= context
        else f"shorten the prompt, the model's context is {context}"
    )
    raise ContextLengthError(
        f"{count} prompt tokens{after} do not fit max_length={most}, which counts prompt and answer "
        f"together; {advice}"
    )


def max_length_reached(*, most: int, context: int) -> ContextLengthError:
    """What is raised where there is no room for one more token."""
    return ContextLengthError(
        f"max_length is reached: {most} of {most} tokens, prompt included; set a larger max_length (the model's "
        f"context is {context})"
    )
