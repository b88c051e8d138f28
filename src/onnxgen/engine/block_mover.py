"""`CacheBlockMover`: content of cache blocks in host memory and in files."""

from __future__ import annotations

import contextlib
import itertools
import logging
import struct
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from onnxgen.backends.base import KVCache
from onnxgen.errors import BackendError, ConfigError
from onnxgen.foundations.work_folders import PARTIAL, remove_leftovers, work_folder
from onnxgen.kvcache.tiers import Piece

_log = logging.getLogger(__name__)

_Bytes = npt.NDArray[np.uint8]
_HEADER = struct.Struct("<8sQQ")
_MAGIC = b"ONNXGEN1"
_CHECKSUM = struct.Struct("<I")


class CacheBlockMover:
    """The `BlockMover` of one cache.

    A file holds what was saved together, and is there completely or not at all::

        [ magic, key, count | sizes, 8 bytes each | content ... | CRC-32 of all before ]

    Args:
        cache: Whose blocks they are.
        folder: Where files may be; a folder is made in it, and removed by `close`. None: there is no disk.
        observe: Told how many bytes were moved between the cache and memory or disk, and in how many seconds.
        clock: Seconds from any start.

    Raises:
        ConfigError: The folder cannot be made.
    """

    def __init__(
        self,
        cache: KVCache,
        *,
        folder: Path | None = None,
        observe: Callable[[int, float], None] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._cache, self._observe, self._clock = cache, observe, clock
        self._held: dict[int, list[_Bytes]] = {}
        self._files: dict[int, Path] = {}
        self._closing = contextlib.ExitStack()
        self._disk_works = True
        self._folder: Path | None = None
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                remove_leftovers(folder / "blocks")
                self._folder = self._closing.enter_context(work_folder(folder / "blocks", PARTIAL))
            except OSError as cause:
                raise ConfigError(f"cannot make a folder for cache blocks in {folder}: {cause}") from cause

    def save(self, key: int, pieces: Sequence[Piece]) -> int | None:
        """Copy what blocks hold to memory, under a key; returns its bytes, or None if that failed."""
        started = self._clock()
        try:
            content = [self._cache.export_block(p.block, p.num_tokens, group=p.group) for p in pieces]
        except (MemoryError, BackendError) as error:
            _log.warning("%d cache blocks could not be saved: %s", len(pieces), error)
            return None
        self._held[key] = content
        num_bytes = sum(part.nbytes for part in content)
        self._moved(num_bytes, started)
        return num_bytes

    def to_disk(self, key: int) -> bool:
        """Move what is kept under a key from memory to a file; where that fails, it stays."""
        if self._folder is None:
            return False
        path = self._folder / f"{key}.blocks"
        part = path.with_suffix(".part")
        try:
            with part.open("wb") as file:
                _write(file.write, key, self._held[key])
            part.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink()
            level = logging.WARNING if self._disk_works else logging.DEBUG
            _log.log(level, "cache blocks could not be written to %s: %s", path, error)
            self._disk_works = False
            return False
        self._disk_works = True
        self._files[key] = path
        del self._held[key]
        return True

    def load(self, key: int, pieces: Sequence[Piece]) -> bool:
        """Fill blocks with what is kept under a key, which stays; False: it cannot be read."""
        started = self._clock()
        try:
            content = self._held[key] if key in self._held else _read(self._files[key], key)
            for part, p in zip(content, pieces, strict=True):
                self._cache.import_block(p.block, part, p.num_tokens, group=p.group)
        except (OSError, MemoryError, BackendError, _DamagedFileError) as error:
            _log.warning("cache blocks %d could not be read back and are lost: %s", key, error)
            return False
        self._moved(sum(part.nbytes for part in content), started)
        return True

    def forget(self, key: int) -> None:
        """Drop what is kept under a key, wherever it is."""
        self._held.pop(key, None)
        path = self._files.pop(key, None)
        if path is not None:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                _log.warning("%s could not be removed: %s", path, error)

    def close(self) -> None:
        """Drop everything, files and folder included. Calling it twice is harmless."""
        self._held.clear()
        self._files.clear()
        self._folder = None
        self._closing.close()

    def _moved(self, num_bytes: int, started: float) -> None:
        if self._observe is not None:
            self._observe(num_bytes, self._clock() - started)


class _DamagedFileError(Exception):
    """A file does not hold what was written to it."""


def _write(write: Callable[[bytes | memoryview], object], key: int, content: Sequence[_Bytes]) -> None:
    header = _HEADER.pack(_MAGIC, key, len(content)) + np.array([c.nbytes for c in content], "<u8").tobytes()
    checksum = zlib.crc32(header)
    write(header)
    for part in content:
        write(part.data)
        checksum = zlib.crc32(part.data, checksum)
    write(_CHECKSUM.pack(checksum))


def _read(path: Path, key: int) -> list[_Bytes]:
    data = np.fromfile(path, np.uint8)
    if data.size < _HEADER.size + _CHECKSUM.size:
        raise _DamagedFileError(f"{path} has {data.size} bytes")
    body, (checksum,) = data[: -_CHECKSUM.size], _CHECKSUM.unpack(data[-_CHECKSUM.size :].tobytes())
    if zlib.crc32(body.data) != checksum:
        raise _DamagedFileError(f"the checksum of {path} is wrong")
    magic, held, count = _HEADER.unpack(body[: _HEADER.size].tobytes())
    if (magic, held) != (_MAGIC, key):
        raise _DamagedFileError(f"{path} holds something else")
    start = _HEADER.size + 8 * count
    sizes: list[int] = body[_HEADER.size : start].view("<u8").tolist()
    ends = np.cumsum([start, *sizes]).tolist()
    return [body[start:end] for start, end in itertools.pairwise(ends)]
