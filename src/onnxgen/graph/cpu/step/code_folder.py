"""The folder where machine code is kept: a file an entry, written whole, and the oldest removed when there are many.

entry   one line of JSON: the kernel's name, its symbol, the digest of the rest | the object file
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from onnxgen.foundations.files import atomic_file

_log = logging.getLogger(__name__)

MOST_BYTES = 128 << 20
"""A model takes about one MB; this is for the leftovers of many versions."""

MOST_DAYS = 90
"""Entries that nobody used for so long are removed."""

_DAY_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Code:
    """Machine code of one kernel.

    Attributes:
        content: A relocatable object file.
        symbol: Its entry.
    """

    content: bytes
    symbol: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What a folder holds.

    Attributes:
        num_entries: Kernels.
        num_bytes: Their size.
    """

    num_entries: int
    num_bytes: int


class CodeFolder:
    """Entries by key. Several processes may use one folder; where it cannot be written, nothing is kept.

    Args:
        path: The folder; made when needed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def holds(self, key: str) -> bool:
        """Whether there is an entry; whether it is whole is seen when it is read."""
        return self._file(key).is_file()

    def read(self, key: str) -> Code | None:
        """An entry, or None where there is none, or a damaged one."""
        file = self._file(key)
        try:
            whole = file.read_bytes()
        except OSError:
            return None
        head, _, content = whole.partition(b"\n")
        with contextlib.suppress(ValueError, TypeError, LookupError):
            facts = json.loads(head)
            if facts["sha256"] == sha256(content).hexdigest():
                self._note_use(file)
                return Code(content, str(facts["symbol"]))
        _log.warning("%s is damaged; its kernel is compiled anew", file)
        return None

    def write(self, key: str, code: Code, *, name: str) -> None:
        """Keep an entry, if the system lets us; ``name`` is for people who look into the file."""
        facts = {"kernel": name, "symbol": code.symbol, "sha256": sha256(code.content).hexdigest()}
        try:
            with atomic_file(self._file(key)) as partial:
                partial.write_bytes(json.dumps(facts).encode() + b"\n" + code.content)
        except OSError as cause:
            _log.debug("the code of %s cannot be kept: %s", name, cause)

    def usage(self) -> Usage:
        """How much is kept."""
        sizes = [size for _, size, _ in self._entries()]
        return Usage(len(sizes), sum(sizes))

    def prune(self, *, most_bytes: int = MOST_BYTES, most_days: float = MOST_DAYS) -> None:
        """Remove entries that are not used any more: those unused for long, and the longest unused of too many."""
        now, left = time.time(), most_bytes
        for used, size, file in sorted(self._entries(), reverse=True):
            left -= size
            if left < 0 or now - used > most_days * _DAY_S:
                # Another process may have been faster.
                with contextlib.suppress(OSError):
                    file.unlink(missing_ok=True)
        # What a process that was killed had begun to write.
        for file in self._files(".*.partial"):
            with contextlib.suppress(OSError):
                if now - file.stat().st_mtime > _DAY_S:
                    file.unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        return self.path / f"{key}.o"

    def _files(self, pattern: str) -> list[Path]:
        try:
            return list(self.path.glob(pattern))
        except OSError:
            return []

    def _entries(self) -> list[tuple[float, int, Path]]:
        entries: list[tuple[float, int, Path]] = []
        for file in self._files("[!.]*.o"):
            with contextlib.suppress(OSError):
                status = file.stat()
                entries.append((status.st_mtime, status.st_size, file))
        return entries

    def _note_use(self, file: Path) -> None:
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > _DAY_S:
                file.touch()
