"""Where checkpoints are kept: one folder for each, with a receipt that says what it holds.

::

    CACHE/checkpoints/
      .NAME.lock               held by the process that fills NAME
      NAME/FILE                put there by one rename, so it is never half a file
      NAME/receipt.json        what was checked, written after FILE
      NAME/.partial-XXXX/      a download under way, or what a killed one left
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Generator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from onnxgen.catalog.layout import lock_path
from onnxgen.catalog.lock import exclusive
from onnxgen.errors import DownloadError, OnnxgenError
from onnxgen.foundations.disk import require_disk_space, size_on_disk
from onnxgen.foundations.files import atomic_file
from onnxgen.foundations.progress import Progress, ProgressTask

RECEIPT = "receipt.json"
_PARTIAL = ".partial-"
_CHUNK_BYTES = 1 << 20
_SPARE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a checkpoint folder holds.

    Attributes:
        source: What was asked for.
        origin: Where it came from.
        path: The checkpoint: a file or folder, relative to the receipt's folder, or absolute if it lies in
            another program's cache.
        size_bytes: Its size.
        sha256: Its hash if it is one file whose hash was computed.
    """

    source: str
    origin: str
    path: str
    size_bytes: int
    sha256: str | None = None


def write_receipt(folder: Path, receipt: Receipt) -> None:
    """Write the receipt; from then on the checkpoint counts as complete."""
    with atomic_file(folder / RECEIPT) as path:
        path.write_text(json.dumps(asdict(receipt), indent=1) + "\n", "utf-8")


def read_receipt(folder: Path) -> Receipt | None:
    """The receipt, or None if there is none that still describes what lies there."""
    try:
        values: Any = json.loads((folder / RECEIPT).read_text("utf-8"))
        receipt = Receipt(**values)
    except (OSError, ValueError, TypeError):
        return None
    path = folder / receipt.path
    return receipt if path.exists() and size_on_disk(path) == receipt.size_bytes else None


@contextlib.contextmanager
def filling(folder: Path, *, progress: Progress) -> Generator[None]:
    """Be the one process that fills ``folder``; what killed runs left in it is removed first.

    Raises:
        DownloadError: The folder cannot be made or written to, or the disk became full.
    """
    description = f"Waiting for another process that fetches {folder.name}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with exclusive(
            lock_path(folder),
            while_waiting=lambda: progress.start(description, total=None),
        ) as alone:
            if alone:
                for leftover in folder.glob(f"{_PARTIAL}*"):
                    shutil.rmtree(leftover, ignore_errors=True)
            yield
    except OnnxgenError:
        raise
    except OSError as cause:
        if cause.errno == errno.ENOSPC:
            raise DownloadError(
                f"the disk that holds {folder} became full; free some space and try again"
            ) from cause
        raise DownloadError(
            f"cannot use {cause.filename or folder}: {cause.strerror or cause}; choose another cache folder "
            "with ONNXGEN_CACHE_DIR"
        ) from cause


@contextlib.contextmanager
def partial_folder(folder: Path) -> Generator[Path]:
    """Yield an empty folder inside ``folder`` for work under way; it is removed afterwards."""
    work = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=folder))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def check_space(folder: Path, needed_bytes: int) -> None:
    """Refuse to begin a download that the disk cannot hold.

    Raises:
        DownloadError: With both numbers.
    """
    what = "fetching it (the download and the checkpoint)"
    require_disk_space(folder, needed_bytes + _SPARE_BYTES, what, error=DownloadError)


def offline_message(what: str, sources: str, otherwise: str = "") -> str:
    """Why something is not fetched in offline mode, and what to do."""
    return (
        f"{what} is not on this machine, and would be fetched from {sources}, but offline mode is on "
        "(HF_HUB_OFFLINE or ONNXGEN_OFFLINE or 'offline' in the configuration); run once without it"
        f"{'. ' + otherwise if otherwise else ''}"
    )


class HashingWriter:
    """Writes a file in pieces, hashing what passes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.size_bytes = 0

    @property
    def sha256(self) -> str:
        """Hash of everything written so far."""
        return self._digest.hexdigest()

    def copy(self, source: IO[bytes], task: ProgressTask) -> None:
        """Append all of ``source``."""
        while piece := source.read(_CHUNK_BYTES):
            self._file.write(piece)
            self._digest.update(piece)
            self.size_bytes += len(piece)
            task.advance(len(piece))

    def sync(self) -> None:
        """Make sure that what was written is on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())


def hash_file(path: Path, *, progress: Progress) -> str:
    """SHA-256 of a file, lower-case hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file, progress.start(f"Checking {path.name}", total=path.stat().st_size) as task:
        while piece := file.read(_CHUNK_BYTES):
            digest.update(piece)
            task.advance(len(piece))
    return digest.hexdigest()
