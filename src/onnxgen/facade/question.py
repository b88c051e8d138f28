"""`Question`: a prompt that is ready for an engine, and how its answers are read."""

from __future__ import annotations

from dataclasses import dataclass

from onnxgen.engine.request import EngineRequest
from onnxgen.facade.generation_options import GenerationOptions
from onnxgen.facade.reading import Reading


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt that is ready for an engine, and how its answers are read.

    Attributes:
        request: For the engine.
        options: What was asked for.
        reading: How reasoning and calls of tools are told from the text; None: all of it is text.
    """

    request: EngineRequest
    options: GenerationOptions
    reading: Reading | None = None
