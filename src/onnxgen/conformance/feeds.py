"""Random feeds for a model of which only its inputs' types are known."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

_KINDS = {
    "float": np.float32, "double": np.float64, "float16": np.float16, "int64": np.int64, "int32": np.int32,
    "int16": np.int16, "int8": np.int8, "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32,
    "uint64": np.uint64, "bool": np.bool_, "string": np.object_,
}  # fmt: skip

SIZES = (1, 2, 3, 4, 16, 32, 48, 64, 96, 128, 224, 320, 480, 512, 640, 1000, 1536, 16000, 44160)
"""Sizes to try for a dimension that the model leaves open."""

_WORDS = (
    "",
    "0",
    "1",
    "2",
    "a",
    "b",
    "c",
    "A",
    "cat",
    "dog",
    "Dog",
    "the",
    "-1",
    "1.5",
    "é",
    "日本",
    "<unk>",
)
_LENGTHS = ("len", "length", "lens", "lengths")


class Described(Protocol):
    """An input as both runtimes describe it."""

    name: str
    type: str
    shape: list[int | str | None]


def open_dims(inputs: Sequence[Described]) -> tuple[str, ...]:
    """Names of the dimensions that are left open; an unnamed one is named after its input and axis."""
    names = [_dim_name(one.name, axis, dim) for one in inputs for axis, dim in enumerate(one.shape)]
    return tuple(dict.fromkeys(name for name in names if name is not None))


def candidate_sizes(names: Sequence[str], given: Mapping[str, int], *, seed: int) -> Iterator[dict[str, int]]:
    """Sizes for open dimensions, the likely ones first: batch 1 and one size for all others, then random ones."""
    first = dict.fromkeys(names[:1], 1)
    for size in (32, 64, 16000, 1, 512, 1536, 48, 2, 44160):
        yield dict.fromkeys(names, size) | first | dict(given)
    random = np.random.default_rng(seed)
    for _ in range(40):
        yield {name: int(random.choice(SIZES)) for name in names} | dict(given)


def random_feeds(
    inputs: Sequence[Described],
    sizes: Mapping[str, int],
    *,
    seed: int,
    below: int = 8,
    values: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Values for every input.

    Floats lie around 0, integers from 0 to ``below``, truth values and words are any. Integers that are called lengths
    are at least 1 and at most the longest axis behind the first of the other inputs.

    Args:
        inputs: What the model takes.
        sizes: Sizes of its open dimensions.
        seed: Of the random numbers.
        below: What integers stay below.
        values: What whole inputs are filled with, by name.

    Raises:
        ValueError: for an input that is no tensor, naming it.
    """
    random = np.random.default_rng(seed)
    longest = max((max(_shape(one, sizes)[1:], default=1) for one in inputs), default=1)
    return {one.name: _value(one, sizes, random, below, longest, values or {}) for one in inputs}


def num_elements(inputs: Sequence[Described], sizes: Mapping[str, int]) -> int:
    """Elements of all inputs together."""
    return sum(math.prod(_shape(one, sizes)) for one in inputs)


def _shape(one: Described, sizes: Mapping[str, int]) -> list[int]:
    return [
        dim if isinstance(dim, int) else sizes[_dim_name(one.name, axis, dim) or ""]
        for axis, dim in enumerate(one.shape)
    ]


def _value(
    one: Described,
    sizes: Mapping[str, int],
    random: np.random.Generator,
    below: int,
    longest: int,
    values: Mapping[str, float],
) -> np.ndarray:
    kind = _KINDS.get(one.type.removeprefix("tensor(").removesuffix(")"))
    if kind is None:
        raise ValueError(f"input {one.name!r} is a {one.type}; random feeds are tensors of numbers or words")
    shape, dtype = _shape(one, sizes), np.dtype(kind)
    if one.name in values:
        return np.full(shape, values[one.name], dtype)
    if dtype.kind == "O":
        return random.choice(np.array(_WORDS, object), shape)
    if dtype.kind == "f":
        return np.asarray(0.5 * random.standard_normal(shape), dtype)
    if dtype.kind == "i" and one.name.lower().replace(".", "_").split("_")[-1] in _LENGTHS:
        return random.integers(1, longest + 1, shape).astype(dtype)
    return random.integers(0, 2 if dtype.kind == "b" else below, shape).astype(dtype)


def _dim_name(input_name: str, axis: int, dim: int | str | None) -> str | None:
    if isinstance(dim, int):
        return None
    return dim or f"{input_name}.{axis}"
