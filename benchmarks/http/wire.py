"""Bytes of an HTTP/1.1 answer and of its event stream, taken apart with as little work as can be."""

from __future__ import annotations


class WireError(Exception):
    """Bytes that are no HTTP answer, or end too early."""


class AnswerDecoder:
    """One answer to a request, from the bytes of a connection (RFC 9112).

    Attributes:
        status: Its status, once the head is there.
        headers: By name in lower case; of a name that comes twice, the last.
        is_whole: Whether the answer has ended.
        keeps_connection: Whether another request may follow on the connection.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.is_whole = False
        self.keeps_connection = True
        self._buffer = bytearray()
        self._is_chunked = False
        self._left: int | None = (
            None  # bytes of the body, or of the chunk with its line end; None: until the end
        )

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes; return the parts of the body that are complete by now.

        Raises:
            WireError: They are not what HTTP allows.
        """
        if self.is_whole:
            raise WireError(f"{len(data)} bytes came after the end of the answer")
        self._buffer += data
        if self.status is None and not self._read_head():
            return []
        return self._chunks() if self._is_chunked else self._plain()

    def end(self) -> None:
        """The connection was closed by the other side.

        Raises:
            WireError: The answer is not whole.
        """
        self.keeps_connection = False
        if self.status is not None and not self._is_chunked and self._left is None:
            self.is_whole = True
        if not self.is_whole:
            seen = "before its head" if self.status is None else "in its body"
            raise WireError(f"the connection was closed {seen}")

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        protocol, _, rest = first.partition(" ")
        if not protocol.startswith("HTTP/1.") or not rest[:3].isdigit():
            raise WireError(f"this begins no HTTP/1.1 answer: {first[:60]!r}")
        if rest[0] == "1":  # interim: the answer itself follows
            return self._read_head()
        for line in lines:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self.status = int(rest[:3])
        self._is_chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        self.keeps_connection = (
            protocol == "HTTP/1.1" and self.headers.get("connection", "").lower() != "close"
        )
        if self._is_chunked:
            self._left = 0
        elif "content-length" in self.headers:
            self._left = int(self.headers["content-length"])
        elif self.status in (204, 304):
            self._left = 0
        return True

    def _plain(self) -> list[bytes]:
        part = bytes(self._buffer)
        self._buffer.clear()
        if self._left is not None:
            if len(part) > self._left:
                raise WireError(f"{len(part) - self._left} bytes more than Content-Length said")
            self._left -= len(part)
            self.is_whole = not self._left
        return [part] if part else []

    def _chunks(self) -> list[bytes]:
        parts: list[bytes] = []
        while not self.is_whole:
            if self._left == 0:
                end = self._buffer.find(b"\r\n")
                if end < 0:
                    break
                size = bytes(self._buffer[:end]).partition(b";")[0]
                try:
                    self._left = int(size, 16) + 2
                except ValueError:
                    raise WireError(f"{size[:20]!r} is no size of a chunk") from None
                del self._buffer[: end + 2]
                self._is_last = self._left == 2
            assert self._left is not None
            if len(self._buffer) < self._left:
                break
            if self._buffer[self._left - 2 : self._left] != b"\r\n":
                raise WireError("a chunk is longer than its size")
            if not self._is_last:
                parts.append(bytes(self._buffer[: self._left - 2]))
            self.is_whole = self._is_last
            del self._buffer[: self._left]
            self._left = 0
        if self.is_whole and self._buffer:
            raise WireError(f"{len(self._buffer)} bytes came after the last chunk")
        return parts


class EventSplitter:
    """Server-sent events (WHATWG HTML, 9.2), as far as model servers use them: the data of each, and comments.

    Attributes:
        comments: Lines that say nothing, as servers send to keep a connection.
    """

    def __init__(self) -> None:
        self.comments = 0
        self._rest = b""

    @property
    def rest(self) -> bytes:
        """What follows the last whole event."""
        return self._rest

    def feed(self, part: bytes) -> list[bytes]:
        """Take bytes; return the data of the events that are complete by now."""
        text = (self._rest + part).replace(b"\r\n", b"\n")
        *whole, self._rest = text.split(b"\n\n")
        return [data for event in whole if (data := self._data(event)) is not None]

    def _data(self, event: bytes) -> bytes | None:
        if event.startswith(b"data: ") and b"\n" not in event:
            return event[6:]
        found: list[bytes] = []
        for line in event.split(b"\n"):
            if line.startswith(b"data:"):
                found.append(line[5:].removeprefix(b" "))
            elif line.startswith(b":"):
                self.comments += 1
        return b"\n".join(found) if found else None
