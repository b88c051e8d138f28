"""`RowWork`: one row on its way from the model's logits to a token."""

from __future__ import annotations

from onnxgen.engine.sampling.custom import Row, SampledRow
from onnxgen.engine.sampling.edits import Edit, take_back
from onnxgen.errors import OnnxgenError
from onnxgen.graph.cpu.draws import Draw
from onnxgen.graph.cpu.masked_rows import Mask


class RowWork:
    """One row of a step.

    Attributes:
        sequence: Whose it is.
        row: Its logits as they are now, float32 ``[vocab]``: the model's own, or a copy.
        undo: What was changed in the model's own; None of a copy.
        forced: The token that stands here whatever the logits say.
        mask: Those of its tokens that may be drawn; None: all may, or the row says so itself.
        draw: How a token is drawn; None until that is known, and where a request's own sampler chooses.
        outcome: The token, or why there is none; None until that is known.
        is_plain: Nothing but a mask ever changes the sequence's logits, and no sampler of its own chooses.
    """

    __slots__ = ("draw", "forced", "is_plain", "mask", "outcome", "row", "sequence", "undo")

    def __init__(self, sequence: SampledRow, row: Row) -> None:
        self.sequence = sequence
        self.row = row
        self.undo: list[Edit] | None = []
        self.forced: int | None = None
        self.mask: Mask | None = None
        self.draw: Draw | None = None
        self.outcome: int | OnnxgenError | None = None
        self.is_plain = False

    def take_back(self) -> None:
        """Give the model's row its values back."""
        if self.undo:
            take_back(self.undo, self.row)
            self.undo.clear()
