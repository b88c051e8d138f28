"""`Question`: a prompt that is ready for an engine, and how its answers are read."""

from __future__ import annotations

from dataclasses import dataclass

from onnxgen.engine.request import EngineRequest
from onnxgen.facade.generation_options import GenerationOptions
from onnxgen.preprocess.reasoning_markers import PromptState, ReasoningMarkers


@dataclass(frozen=True, slots=True)
class Reasoning:
    """How reasoning is told from an answer.

    Attributes:
        markers: What the model puts around it.
        state: What the prompt says of it at its end.
    """

    markers: ReasoningMarkers
    state: PromptState


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt that is ready for an engine, and how its answers are read.

    Attributes:
        request: For the engine.
        options: What was asked for.
        reasoning: How reasoning is told from the answer; None: it is not.
    """

    request: EngineRequest
    options: GenerationOptions
    reasoning: Reasoning | None = None
