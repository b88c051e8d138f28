"""What both backends say of outputs that a head reads and a graph does not have."""

from __future__ import annotations

from collections.abc import Iterable

from onnxgen.backends.base import DecoderModel


def no_hidden_output(model: DecoderModel, name: str, outputs: Iterable[str]) -> str:
    """The message about an entry of ``model.hidden_outputs``."""
    return (
        f"{model.path} has no output {name!r}, which the folder's head for drafts reads; its outputs are "
        f"{', '.join(sorted(outputs))}. Build the model with that output, or take the head's section out of "
        "genai_config.json"
    )
