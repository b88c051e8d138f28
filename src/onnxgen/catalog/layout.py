"""Where things lie in the cache folder, and what built models are called.

::

    CACHE/
      checkpoints/NAME/                     what was fetched: see `onnxgen.catalog.storage`
      models/NAME-PRECISION/                what was built: put there by one rename, so it is never half a folder
      models/.NAME-PRECISION.stamp.json     the checkpoint that it was built from, written after it
      models/.NAME-PRECISION.lock           held by the process that builds it
      graphs/                               graphs as the ONNX Runtime backend rewrote them
      run_history                           what was typed into conversations
"""

from __future__ import annotations

from pathlib import Path


def checkpoints_folder(cache_dir: Path) -> Path:
    """The folder of all fetched checkpoints."""
    return cache_dir / "checkpoints"


def models_folder(cache_dir: Path) -> Path:
    """The folder of all built models."""
    return cache_dir / "models"


def model_folder(cache_dir: Path, name: str, precision: str) -> Path:
    """The folder of the model that is built from the checkpoint ``name``."""
    return models_folder(cache_dir) / f"{name}-{precision}"


def is_built_from(model: str, checkpoint: str) -> bool:
    """Whether a model of that name is built from a checkpoint of that name."""
    return model.rpartition("-")[0] == checkpoint


def stamp_path(model: Path) -> Path:
    """The file that says which checkpoint a built model folder came from."""
    return model.parent / f".{model.name}.stamp.json"


def lock_path(folder: Path) -> Path:
    """The file whose lock the process holds that fills a folder of a checkpoint or a model."""
    return folder.parent / f".{folder.name}.lock"
