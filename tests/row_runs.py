"""Calling step kernels over rows: headers, strided rows, quantized rows and what they should hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnxgen.graph.cpu.compiled.header import HEADER_WORDS, Header
from onnxgen.graph.cpu.step.running import run_parts

ROWS = int(Header.TOKENS)


def header_of(**words):
    """A header with these words, named in lower case."""
    header = np.zeros(HEADER_WORDS, np.int64)
    for name, value in words.items():
        header[Header[name.upper()]] = value
    return header


def spaced(rows, width, gap, dtype=np.float32):
    """Rows that are apart by a gap, and the whole memory, filled with 7."""
    memory = np.full((rows, width + gap), 7, dtype)
    return memory[:, :width], memory


def strided(values, gap=3):
    """The same rows apart by a gap."""
    rows, _ = spaced(*values.shape, gap, values.dtype)
    rows[...] = values
    return rows


def rows_at(name, values):
    """The arguments that name rows: their address, and the elements between them."""
    return {name: values.ctypes.data, f"{name}_stride": values.strides[0] // values.itemsize}


@dataclass
class Quantized:
    """Memory for quantized rows."""

    q: np.ndarray
    scale: np.ndarray
    total: np.ndarray

    @classmethod
    def empty(cls, rows, width, elements, group):
        groups = -(-width // group)
        return cls(
            np.full((rows, groups * group), 7, elements),
            np.full((rows, groups), 7, np.float32),
            np.full((rows, groups), 7, np.int32),
        )

    def arguments(self):
        """The arguments that name them."""
        return {
            **rows_at("q", self.q),
            "scale": self.scale.ctypes.data,
            "group_stride": self.scale.shape[1],
            "total": self.total.ctypes.data,
        }

    def check(self, x):
        """Compare with the rows of floats that they stand for."""
        rows, groups = self.scale.shape
        padded = np.zeros((rows, self.q.shape[1]))
        padded[:, : x.shape[1]] = x
        grouped, q = padded.reshape(rows, groups, -1), self.q.reshape(rows, groups, -1).astype(np.int64)
        largest = np.iinfo(self.q.dtype).max
        np.testing.assert_allclose(self.scale, np.abs(grouped).max(-1) / largest, rtol=2e-6, atol=1e-38)
        assert (np.abs(q * self.scale[..., None] - grouped) <= self.scale[..., None] * 0.51 + 1e-33).all()
        np.testing.assert_array_equal(self.total, q.sum(-1))


NOTHING = {"q": 0, "q_stride": 0, "scale": 0, "group_stride": 0, "total": 0}
"""Arguments where no integers are wanted."""


def run(kernel, count, /, *, parts=1, **arguments):
    """Call a kernel over that many rows, its parts in any order."""
    order = np.random.default_rng().permutation(parts)
    run_parts(kernel, parts=parts, order=order, header=header_of(tokens=count), **arguments)
