"""Random values for inputs of which nothing but the types is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from onnxgen.errors import FeedError, InvalidGraphError
from onnxgen.graph.ir.types import dtype_named, numpy_dtype
from onnxgen.graph.shapes import compile_sizes, symbols_in

_WORDS = (
    "", "0", "1", "2", "a", "b", "c", "A", "cat", "dog", "Dog", "the", "-1", "1.5", "é", "日本", "<unk>",
)  # fmt: skip
"""Numbers, names in both cases, scripts, nothing: what tokenizers and dictionaries treat differently."""

_LENGTHS = ("len", "length", "lens", "lengths")


class Described(Protocol):
    """An input as a session describes it, ours or ONNX Runtime's."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def type(self) -> str:
        """``tensor(float)``."""
        ...

    @property
    def shape(self) -> Sequence[int | str | None]:
        """Sizes, names, and None."""
        ...


def open_dims(inputs: Sequence[Described]) -> tuple[str, ...]:
    """Names of the dimensions that are left open; an unnamed one is called after its input and axis.

    Those that follow from others by their name (``past + seq``) are not.
    """
    names = _dim_names(inputs)
    return tuple(name for name in names if not _follows(name, names))


def complete_sizes(
    inputs: Sequence[Described], sizes: Mapping[str, int], *, default: int = 1
) -> dict[str, int]:
    """A size for every name of a dimension: the given one, what follows from others, or the default."""
    names = _dim_names(inputs)
    known = {name: sizes.get(name, default) for name in open_dims(inputs)}
    for name in names:
        if name in sizes:
            known[name] = sizes[name]
        elif name not in known:
            used = sorted(symbols_in(name))
            known[name] = compile_sizes([name], used)(*(known[symbol] for symbol in used))[0]
    return known


def shapes(inputs: Sequence[Described], sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The shape of every input, given a size for every dimension (`complete_sizes`)."""
    return {
        one.name: tuple(
            sizes[_dim_name(one, axis)] if not isinstance(dim, int) else dim
            for axis, dim in enumerate(one.shape)
        )
        for one in inputs
    }


def random_feeds(
    inputs: Sequence[Described],
    sizes: Mapping[str, int],
    *,
    seed: int,
    below: int | None = None,
    values: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """A value for every input.

    Floating-point numbers lie around 0 (normal, deviation 1/2). Integers and booleans are 1 where nobody says otherwise,
    which most often is a valid index, and a mask that hides nothing. Strings are any of a few words.

    Args:
        inputs: What the model takes.
        sizes: A size for every dimension (`complete_sizes`).
        seed: Of the random numbers.
        below: Draw integers from 0 up to this, and booleans of both kinds; integers that are called lengths are then at
            least 1, and at most the longest axis behind the first of any input.
        values: What whole inputs are filled with, by name.

    Raises:
        FeedError: an input is no tensor.
    """
    random = np.random.default_rng(seed)
    shape_of = shapes(inputs, sizes)
    longest = max((max(shape[1:], default=1) for shape in shape_of.values()), default=1)
    found: dict[str, Any] = {}
    for one in inputs:
        shape, dtype = shape_of[one.name], dtype_named(one.type)
        if dtype is None:
            raise FeedError(f"input {one.name!r} is a {one.type}; random values are tensors")
        kind = numpy_dtype(dtype)
        if values and one.name in values:
            found[one.name] = np.full(shape, values[one.name], kind)
        elif kind == object:
            found[one.name] = random.choice(np.array(_WORDS, object), shape)
        elif not (dtype.is_integer() or kind == bool):
            found[one.name] = np.asarray(0.5 * random.standard_normal(shape)).astype(kind)
        elif below is None:
            found[one.name] = np.ones(shape, kind)
        else:
            bounds = (
                (1, longest + 1)
                if _is_length(one.name) and kind != bool
                else (0, 2 if kind == bool else below)
            )
            found[one.name] = np.asarray(random.integers(*bounds, shape)).astype(kind)
    return found


def _is_length(name: str) -> bool:
    return name.lower().replace(".", "_").split("_")[-1] in _LENGTHS


def _dim_names(inputs: Sequence[Described]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(
            _dim_name(one, axis)
            for one in inputs
            for axis, dim in enumerate(one.shape)
            if not isinstance(dim, int)
        )
    )


def _dim_name(one: Described, axis: int) -> str:
    return str(one.shape[axis] or f"{one.name}.{axis}")


def _follows(name: str, names: Sequence[str]) -> bool:
    """Whether a name is an expression of others."""
    if name.isidentifier():
        return False
    try:
        used = symbols_in(name)
    except InvalidGraphError:
        return False
    return bool(used) and used <= {other for other in names if other.isidentifier()}
