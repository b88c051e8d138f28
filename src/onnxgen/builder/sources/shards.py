"""Which files of a Hugging Face folder hold its weights."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxgen.errors import CheckpointError
from onnxgen.foundations.files import check_file, confined, read_json

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_NUMBERED = re.compile(r"(.+)-(\d+)-of-(\d+)\.safetensors")


@dataclass(frozen=True, slots=True)
class Shards:
    """The files to read, and what their index says of them.

    Attributes:
        files: Each file once, sorted.
        index: Tensor name to file; empty where there is no index.
    """

    files: tuple[Path, ...]
    index: Mapping[str, Path]


def list_shards(folder: Path) -> Shards:
    """Find a checkpoint's files: by its index, else the single file, else numbered files.

    Raises:
        CheckpointError: None are found, a numbered one is missing, or the index names a file that is missing or
            outside the folder.
    """
    if (folder / _INDEX).exists():
        return _by_index(folder)
    if (folder / _SINGLE).exists():
        return Shards((folder / _SINGLE,), {})
    found = sorted(folder.glob("*.safetensors"))
    numbered = [(file, match) for file in found if (match := _NUMBERED.fullmatch(file.name))]
    if numbered:
        return Shards(_complete(folder, numbered), {})
    if len(found) == 1:
        return Shards(tuple(found), {})
    if found:
        names = ", ".join(file.name for file in found)
        raise CheckpointError(f"{folder} has no {_INDEX} to say which of these belong together: {names}")
    others = sorted(file.name for pattern in ("*.bin", "*.pt", "*.pth") for file in folder.glob(pattern))
    hint = f"; {others[0]} holds pickled weights, convert them to safetensors" if others else ""
    raise CheckpointError(f"{folder} has no *.safetensors files{hint}")


def _by_index(folder: Path) -> Shards:
    file = folder / _INDEX
    content: Any = read_json(file, error=CheckpointError)
    weight_map = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{file}: 'weight_map' is missing or empty; it should name each tensor's file")
    paths: dict[str, Path] = {}
    index: dict[str, Path] = {}
    for name, shard in weight_map.items():
        if not isinstance(shard, str):
            raise CheckpointError(f"{file}: tensor {name!r} is in {shard!r}, expected a file name")
        if shard not in paths:
            paths[shard] = check_file(confined(folder, shard, error=CheckpointError), error=CheckpointError)
        index[str(name)] = paths[shard]
    return Shards(tuple(sorted(paths.values())), index)


def _complete(folder: Path, numbered: list[tuple[Path, re.Match[str]]]) -> tuple[Path, ...]:
    kinds = {(match[1], match[3]) for _, match in numbered}
    if len(kinds) > 1:
        names = ", ".join(file.name for file, _ in numbered)
        raise CheckpointError(f"{folder} has no {_INDEX} to say which of these belong together: {names}")
    total = int(numbered[0][1][3])
    missing = sorted({*range(1, total + 1)} - {int(match[2]) for _, match in numbered})
    if missing:
        raise CheckpointError(
            f"{folder} has {len(numbered)} of {total} shards; missing are numbers "
            f"{', '.join(str(number) for number in missing)}"
        )
    return tuple(file for file, _ in numbered)
