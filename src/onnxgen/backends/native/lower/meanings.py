"""What a value of a decoder graph means for a step over packed tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnxgen.backends.native.plan import RowKind, Stored, View

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """One sequence, of which ``past`` tokens are cached and ``new`` ones are run."""

    past: int
    new: int

    @property
    def total(self) -> int:
        """Tokens of the sequence after the run."""
        return self.past + self.new


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A constant: its elements, and where their bytes are.

    Attributes:
        array: The elements, a view over the mapped file as a rule.
        stored: The bytes, under the shape they are stored in.
        transposed: ``array`` is the transposed of what is stored.
    """

    array: np.ndarray
    stored: Stored
    transposed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A value that follows from lengths alone (masks, positions, shapes): what it is for each sample."""

    values: tuple[np.ndarray, ...]


@dataclass(frozen=True, slots=True)
class TokenIds:
    """The tokens."""

    shapes: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class CacheState:
    """Past or present keys or values of a layer."""

    part: str
    layer: int
    present: bool
    shapes: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class RowsOf:
    """Activations: columns of a buffer, under the shape that the graph gives them for each sample."""

    view: View
    rows: RowKind
    shapes: tuple[Shape, ...]

    @property
    def last(self) -> int:
        """Size of the last axis, which divides the width."""
        return self.shapes[0][-1]


@dataclass(frozen=True, slots=True, eq=False)
class Switched:
    """A constant for sequences up to the switch length, and another one for longer ones."""

    short: Constant
    long: Constant


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody knows; somebody else has said why."""


Meaning = Constant | Known | TokenIds | CacheState | RowsOf | Switched | Unknown


class DeclineError(Exception):
    """A node has no form for packed tokens; the message is the reason."""
