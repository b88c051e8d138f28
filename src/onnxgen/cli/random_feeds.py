"""Inputs for a session: from files, and random ones for the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxgen.errors import FeedError, InvalidGraphError, OptionError
from onnxgen.foundations.suggest import did_you_mean

if TYPE_CHECKING:
    import numpy as np

    from onnxgen.facade.runtime import NodeArg

_UNSAID_SIZE = 1
"""Of symbols that nobody gave a size, and of dimensions without a name."""

_TEXT = "onnxgen"


def feeds_for(
    ports: Sequence[NodeArg], *, files: Mapping[str, Path], sizes: Mapping[str, int], seed: int
) -> dict[str, np.ndarray]:
    """A value for every input.

    Floating-point numbers are drawn from a normal distribution. Integers and booleans are 1, which most often is a valid
    index, and a mask that hides nothing; strings are all the same.

    Args:
        ports: What the session takes.
        files: ``.npy`` files by input name.
        sizes: Sizes of symbols; 1 for those that are missing.
        seed: Of the random numbers.

    Raises:
        OptionError: A name or a file is wrong.
        FeedError: An input without a file is no tensor, or its rank is unknown.
    """
    import numpy as np

    names = [port.name for port in ports]
    for name in files:
        if name not in names:
            raise OptionError(
                f"--input {name}: the model has no such input{did_you_mean(name, names)}; it takes {', '.join(names)}"
            )
    rng = np.random.default_rng(seed)
    known = _sizes_of_symbols(ports, sizes)
    return {
        port.name: _from_file(files[port.name]) if port.name in files else _random(port, known, rng)
        for port in ports
    }


def files_by_name(inputs: Iterable[str]) -> dict[str, Path]:
    """Files by input name.

    Raises:
        OptionError: One is not NAME=FILE.
    """
    files: dict[str, Path] = {}
    for text in inputs:
        name, equals, file = text.partition("=")
        if not (equals and name and file):
            raise OptionError(f"--input {text!r} is not NAME=FILE.npy")
        files[name] = Path(file)
    return files


def _sizes_of_symbols(ports: Sequence[NodeArg], sizes: Mapping[str, int]) -> dict[str, int]:
    """A size for every symbol; a name that is an expression of others (``past + seq``) has theirs.

    Raises:
        OptionError: A size was given for a symbol that no input has.
    """
    from onnxgen.graph.shapes import compile_sizes, symbols_in

    symbols = [dim for port in ports for dim in port.shape if isinstance(dim, str)]
    for name in sizes:
        if name not in symbols:
            raise OptionError(
                f"--dim {name}: no input has a dimension of that name{did_you_mean(name, symbols)}; "
                f"there are {', '.join(dict.fromkeys(symbols)) or 'none'}"
            )
    plain = [name for name in dict.fromkeys(symbols) if name.isidentifier()]
    known = {name: sizes.get(name, _UNSAID_SIZE) for name in plain}
    for name in dict.fromkeys(symbols):
        if name in sizes or name in known:
            known[name] = sizes.get(name, _UNSAID_SIZE)
            continue
        try:
            is_sum = symbols_in(name) <= set(plain)
            known[name] = (
                compile_sizes([name], plain)(*(known[p] for p in plain))[0] if is_sum else _UNSAID_SIZE
            )
        except InvalidGraphError:
            known[name] = _UNSAID_SIZE
    return known


def _from_file(path: Path) -> np.ndarray:
    import numpy as np

    try:
        value = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise OptionError(f"{path} cannot be read as a .npy file: {error}") from error
    if not isinstance(value, np.ndarray):
        raise OptionError(f"{path} is an archive of arrays, expected a single array (.npy)")
    return value.astype(object) if value.dtype.kind == "U" else value


def _random(port: NodeArg, sizes: Mapping[str, int], rng: np.random.Generator) -> Any:
    import numpy as np

    from onnxgen.graph.ir.types import dtype_named, numpy_dtype

    dtype = dtype_named(port.type)
    if dtype is None or port.rank is None:
        what = port.type if dtype is None else f"{port.type} of unknown rank"
        raise FeedError(f"input {port.name!r} is {what}: give it with --input {port.name}=FILE.npy")
    shape = tuple(
        dim if isinstance(dim, int) else _UNSAID_SIZE if dim is None else sizes[dim] for dim in port.shape
    )
    kind = numpy_dtype(dtype)
    if kind == object:
        return np.full(shape, _TEXT, object)
    if dtype.is_integer() or kind == bool:
        return np.ones(shape, kind)
    return rng.standard_normal(shape).astype(kind)
