"""Messages on a pipe: each is pickled, behind its length.

Both ends are this package, one the parent of the other: nothing foreign is ever unpickled.
"""

from __future__ import annotations

import os
import pickle
import struct
from threading import Lock
from typing import Any

_LENGTH = struct.Struct("<Q")
_PIECE = 1 << 20


def encode(message: object) -> bytes:
    """A message as it goes through a pipe. Raises what its parts raise when they are pickled."""
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(content)) + content


class FrameReader:
    """Reads messages from a file descriptor. For one thread.

    Args:
        descriptor: Open for reading; stays the caller's to close.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self) -> Any:
        """The next message; waits for it.

        Raises:
            EOFError: The other end is closed, perhaps in the middle of a message.
        """
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        return pickle.loads(self._exactly(length))

    def _exactly(self, count: int) -> bytearray:
        content = bytearray()
        while len(content) < count:
            piece = os.read(self._descriptor, min(count - len(content), _PIECE))
            if not piece:
                raise EOFError
            content += piece
        return content


class FrameWriter:
    """Writes messages to a file descriptor. For several threads.

    Args:
        descriptor: Open for writing; stays the caller's to close.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = Lock()

    def write(self, frame: bytes) -> None:
        """Write what `encode` gave; waits while the pipe is full.

        Raises:
            OSError: The other end is closed.
        """
        with self._lock:
            rest = memoryview(frame)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
