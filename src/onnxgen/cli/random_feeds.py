"""Inputs for a session: from files, and random ones for the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from onnxgen.errors import FeedError, OptionError
from onnxgen.foundations.suggest import did_you_mean

if TYPE_CHECKING:
    import numpy as np

    from onnxgen.facade.runtime import NodeArg


def feeds_for(
    ports: Sequence[NodeArg], *, files: Mapping[str, Path], sizes: Mapping[str, int], seed: int
) -> dict[str, np.ndarray]:
    """A value for every input.

    Args:
        ports: What the session takes.
        files: ``.npy`` files by input name.
        sizes: Sizes of symbols; 1 for those that are missing and do not follow from others.
        seed: Of the random numbers.

    Raises:
        OptionError: A name or a file is wrong.
        FeedError: An input without a file is no tensor, or its rank is unknown.
    """
    from onnxgen.graph.session.random_feeds import complete_sizes, random_feeds

    names = [port.name for port in ports]
    for name in files:
        if name not in names:
            raise OptionError(
                f"--input {name}: the model has no such input{did_you_mean(name, names)}; it takes {', '.join(names)}"
            )
    _check_sizes(ports, sizes)
    others = [port for port in ports if port.name not in files]
    for port in others:
        is_tensor = port.type.startswith("tensor(")
        if port.rank is None or not is_tensor:
            kind = f"{port.type} of unknown rank" if is_tensor else port.type
            raise FeedError(f"input {port.name!r} is {kind}: give it with --input {port.name}=FILE.npy")
    values = {name: _from_file(file) for name, file in files.items()}
    values |= random_feeds(others, complete_sizes(ports, sizes), seed=seed)
    return {name: values[name] for name in names}


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


def _check_sizes(ports: Sequence[NodeArg], sizes: Mapping[str, int]) -> None:
    symbols = list(dict.fromkeys(dim for port in ports for dim in port.shape if isinstance(dim, str)))
    for name in sizes:
        if name not in symbols:
            raise OptionError(
                f"--dim {name}: no input has a dimension of that name{did_you_mean(name, symbols)}; "
                f"there are {', '.join(symbols) or 'none'}"
            )


def _from_file(path: Path) -> np.ndarray:
    import numpy as np

    try:
        value = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise OptionError(f"{path} cannot be read as a .npy file: {error}") from error
    if not isinstance(value, np.ndarray):
        raise OptionError(f"{path} is an archive of arrays, expected a single array (.npy)")
    return value.astype(object) if value.dtype.kind == "U" else value
