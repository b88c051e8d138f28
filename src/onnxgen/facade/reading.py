"""`Reading`: how the answers to one question are read."""

from __future__ import annotations

from dataclasses import dataclass

from onnxgen.preprocess.answer_grammar import ReasoningRule
from onnxgen.preprocess.answer_reader import AnswerReader, MarkedReader
from onnxgen.preprocess.harmony import HarmonyParser
from onnxgen.preprocess.harmony_markers import HarmonyMarkers
from onnxgen.preprocess.reasoning import ReasoningSplitter
from onnxgen.preprocess.tool_calls.bound import BoundFormat
from onnxgen.preprocess.tool_calls.parser import ToolCallParser
from onnxgen.preprocess.tool_calls.tools import ToolDefinition


@dataclass(frozen=True, slots=True)
class ToolUse:
    """How calls of tools are told from an answer.

    Attributes:
        format: How the model writes them.
        tools: What is offered.
    """

    format: BoundFormat
    tools: tuple[ToolDefinition, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """How the answers to one question are read.

    Attributes:
        reasoning: How reasoning is told from the rest; None: it is not.
        tool_use: How calls of tools are told from the rest; None: they are not.
        harmony: The model writes harmony messages, which say both.
        prompt: The prompt, of which their reader looks at the end.
        kept_ids: Special tokens of marks that stay in the text.
    """

    reasoning: ReasoningRule | None = None
    tool_use: ToolUse | None = None
    harmony: HarmonyMarkers | None = None
    prompt: str = ""
    kept_ids: frozenset[int] = frozenset()

    @property
    def shown_ids(self) -> frozenset[int]:
        """Special tokens that must not be left out of the text, since marks are made of them."""
        if self.harmony is not None:
            return self.harmony.shown_ids
        thought = self.kept_ids if self.reasoning is None else self.reasoning.markers.shown_ids
        return thought if self.tool_use is None else thought | self.tool_use.format.shown_ids

    def new_reader(self) -> AnswerReader:
        """A reader for one answer."""
        reasoning, use = self.reasoning, self.tool_use
        if self.harmony is not None:
            return HarmonyParser(self.harmony, () if use is None else use.tools, prompt=self.prompt)
        return MarkedReader(
            None if reasoning is None else ReasoningSplitter(reasoning.markers, reasoning.state),
            None if use is None else ToolCallParser(use.format, use.tools),
        )
