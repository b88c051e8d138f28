"""How far integers may go, so that no sum of products leaves an int32.

Scores: ``|q . k| <= |q| |k|`` (Cauchy and Schwarz), the lengths being those of the rounded vectors. Rounding adds at most
``sqrt(256) / 2 = 8`` to a length, so vectors are scaled to a length of at most 46,300: ``46,308 ** 2 < 2 ** 31``. A vector whose
energy is in one dimension is bound by int16 instead, 32,767. So an outlier among the dimensions costs no precision, and ordinary
vectors have 13 to 14 bits where a bound on single elements would allow 12.5.

Values: a sum over `SUM_KEYS` tokens of weights from 0 to `LARGEST_WEIGHT` and values of at most `LARGEST_VALUE`:
``32 * 8191 * 8191 < 2 ** 31``.

Keys and values of 8 bits go to `LARGEST_BYTE`, far below both bounds. Rotated keys often have a dimension many times as large as
the others, to which one scale would leave few bits. So such queries and keys are multiplied by a Hadamard matrix before they are
rounded: each dimension becomes the sum of `mixed_dims` with some signs turned, none stands out, and dot products stay the same
but for a factor. It makes the error of SmolLM2's next-token distribution 3.5 times smaller.
"""

from __future__ import annotations

LONGEST_VECTOR = 46300.0
LARGEST_WORD = 32767.0
LARGEST_BYTE = 127.0

SUM_KEYS = 32
LARGEST_WEIGHT = 8191.0
LARGEST_VALUE = 8191.0

TILE_KEYS = 64
"""Keys between two corrections of the running maximum. Tiles begin at multiples of it in every sequence."""

SPLIT_KEYS = 256
"""Keys whose softmax is computed on its own, at multiples of it in every sequence; then splits are merged in their order."""

LOWEST = -1e30
"""The maximum of no scores."""


def mixed_dims(head_dim: int, bits: int) -> int:
    """Neighbouring dimensions of queries and keys that are mixed with each other, by which products grow; 1 for none."""
    return head_dim & -head_dim if bits == 8 else 1
