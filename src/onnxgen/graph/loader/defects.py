"""What is wrong with a model, collected before anything is said."""

from __future__ import annotations

from onnxgen.errors import InvalidGraphError

_MOST = 20


class Defects:
    """A list of findings; the same finding is kept once."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._found: dict[str, None] = {}

    def add(self, finding: str) -> None:
        """Take down one finding: a phrase that names the node, value or tensor."""
        self._found[finding] = None

    def raise_if_any(self) -> None:
        """Report every finding at once.

        Raises:
            InvalidGraphError: when there are findings; beyond 20 only their number is told.
        """
        if not self._found:
            return
        found = list(self._found)
        shown = found[:_MOST]
        if len(found) > _MOST:
            shown.append(f"and {len(found) - _MOST} more")
        if len(found) == 1:
            raise InvalidGraphError(f"{self._origin} is not a valid ONNX model: {found[0]}")
        lines = "".join(f"\n  - {finding}" for finding in shown)
        raise InvalidGraphError(f"{self._origin} is not a valid ONNX model, {len(found)} defects:{lines}")
