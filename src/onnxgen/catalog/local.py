"""What is on this machine: pulled checkpoints and built models, listed and removed."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from onnxgen.catalog.layout import checkpoints_folder, is_built_from, models_folder, stamp_path
from onnxgen.catalog.storage import RECEIPT, read_receipt
from onnxgen.errors import ModelNotFoundError
from onnxgen.foundations.disk import size_on_disk
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.metadata.folder import is_model_folder


class LocalKind(Enum):
    """What a local item is."""

    CHECKPOINT = "checkpoint"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class LocalItem:
    """A checkpoint or a model folder in the cache.

    Attributes:
        name: What users call it.
        kind: Checkpoint (as pulled) or model (as built).
        path: Its file or folder.
        size_bytes: What it takes on the disk; 0 for a checkpoint that lies in another program's cache.
        modified_s: When it was made, in seconds since the epoch.
        origin: Where a checkpoint came from; None for models.
    """

    name: str
    kind: LocalKind
    path: Path
    size_bytes: int
    modified_s: float
    origin: str | None = None


def local_items(cache_dir: Path) -> tuple[LocalItem, ...]:
    """Everything complete in the cache, checkpoints first, each kind by name."""
    return (*_checkpoints(checkpoints_folder(cache_dir)), *_models(models_folder(cache_dir)))


def remove_local(name: str, *, cache_dir: Path) -> tuple[LocalItem, ...]:
    """Remove the checkpoint and the model of that name; a checkpoint's name also removes models built from it.

    Only names that `local_items` lists are known, so a name can never be a path. A checkpoint that lies in
    another program's cache is forgotten, not deleted.

    Returns:
        What was removed.

    Raises:
        ModelNotFoundError: Nothing has that name.
    """
    items = local_items(cache_dir)
    chosen = tuple(item for item in items if item.name == name or _built_from(item, name, items))
    if not chosen:
        names = sorted({item.name for item in items})
        raise ModelNotFoundError(
            f"nothing named {name!r} in {cache_dir} (there: {', '.join(names) or 'nothing'})"
            f"{did_you_mean(name, names)}"
        )
    for item in chosen:
        if item.kind is LocalKind.CHECKPOINT:
            shutil.rmtree(checkpoints_folder(cache_dir) / item.name)
        else:
            shutil.rmtree(item.path)
            stamp_path(item.path).unlink(missing_ok=True)
    return chosen


def _built_from(item: LocalItem, name: str, items: tuple[LocalItem, ...]) -> bool:
    is_checkpoint = any(known.name == name and known.kind is LocalKind.CHECKPOINT for known in items)
    return is_checkpoint and item.kind is LocalKind.MODEL and is_built_from(item.name, name)


def _checkpoints(folder: Path) -> list[LocalItem]:
    items: list[LocalItem] = []
    for child in _folders(folder):
        receipt = read_receipt(child)
        if receipt is None:
            continue
        items.append(
            LocalItem(
                child.name,
                LocalKind.CHECKPOINT,
                child / receipt.path,
                0 if Path(receipt.path).is_absolute() else receipt.size_bytes,
                (child / RECEIPT).stat().st_mtime,
                receipt.origin,
            )
        )
    return items


def _models(folder: Path) -> list[LocalItem]:
    return [
        LocalItem(child.name, LocalKind.MODEL, child, size_on_disk(child), child.stat().st_mtime)
        for child in _folders(folder)
        if is_model_folder(child)
    ]


def _folders(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return sorted(
            child for child in folder.iterdir() if child.is_dir() and not child.name.startswith(".")
        )
    return []
