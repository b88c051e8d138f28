"""`shortened`: the beginning of a draft."""

from __future__ import annotations

from onnxgen.engine.speculation.base import Draft


def shortened(draft: Draft, length: int) -> Draft | None:
    """The first tokens of a draft; None: there are none."""
    if length >= len(draft.tokens):
        return draft if draft.tokens else None
    if length <= 0:
        return None
    known = draft.distributions
    return Draft(draft.tokens[:length], None if known is None else known[:length], draft.kind)
