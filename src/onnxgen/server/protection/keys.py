"""`KeyRing`: which keys open a server, as whom and for what; from settings and from a file that may change.

A key is written ``KEY``, ``NAME=KEY`` or, in the file, with the word ``admin`` behind it:

    # one key per line
    sk-3f1c9a
    alice=sk-77b0e2
    operator=sk-5d24c8 admin
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from onnxgen.errors import ConfigError

_log = logging.getLogger(__name__)

Scope = Literal["user", "admin"]

_NAMED = re.compile(r"(?P<name>[A-Za-z0-9_.-]{1,64})=(?P<key>[^=].*)")
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_CHECK_FILE_S = 1.0


@dataclass(frozen=True, slots=True)
class Key:
    """A key, of which only a digest is kept.

    Attributes:
        name: Whose it is: the tenant of requests.
        scope: ``admin`` opens everything, ``user`` all but the operator's paths.
        digest: Of the key, under a secret of this process.
    """

    name: str
    scope: Scope
    digest: bytes


def name_in(text: str) -> str | None:
    """The name of a key that is written as ``NAME=KEY``; None where it is the key alone."""
    named = _NAMED.fullmatch(text)
    return None if named is None else named["name"]


class KeyRing:
    """The keys of a server.

    Args:
        users: Keys of users, as settings have them.
        admins: Keys of operators.
        file: More keys, read again when it changes. What is wrong in it later leaves the keys as they were.
        now: Seconds from any beginning; the file is looked at once a second at most.

    Raises:
        ConfigError: A key is malformed or given twice, or the file cannot be read.
    """

    def __init__(
        self,
        users: Sequence[str] = (),
        admins: Sequence[str] = (),
        *,
        file: Path | None,
        now: Callable[[], float],
    ) -> None:
        self._secret = secrets.token_bytes(32)
        given = [self._key(text, "user", "--api-key") for text in users]
        self._given = given + [self._key(text, "admin", "--admin-key") for text in admins]
        self._file, self._now = file, now
        self._keys = tuple(self._given)
        if file is not None:
            self._stamp, self._looked_at = _stamp(file), now()
            self._keys = self._read(file)
        _check_distinct(self._keys)

    @property
    def is_asked_for(self) -> bool:
        """Whether requests need a key. A file of keys asks for one even while it has none."""
        return bool(self._keys) or self._file is not None

    @property
    def has_admins(self) -> bool:
        """Whether any key opens the operator's paths."""
        return any(key.scope == "admin" for key in self._keys)

    def find(self, presented: str) -> Key | None:
        """The key that somebody presents; the time it takes says nothing about the keys."""
        self._look_at_file()
        digest = self._digest(presented)
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found

    def _look_at_file(self) -> None:
        file = self._file
        if file is None or self._now() - self._looked_at < _CHECK_FILE_S:
            return
        self._looked_at = self._now()
        stamp = _stamp(file)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            keys = self._read(file)
            _check_distinct(keys)
        except ConfigError as error:
            _log.error("the keys stay as they were: %s", error)
            return
        self._keys = keys
        _log.info("%s changed; %d keys are known now", file, len(keys))

    def _read(self, file: Path) -> tuple[Key, ...]:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as cause:
            raise ConfigError(f"cannot read the keys in {file}: {cause}") from cause
        keys: list[Key] = []
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            text, *words = line.split()
            if words not in ([], ["admin"], ["user"]):
                raise ConfigError(
                    f"{file}, line {number}: a key may be followed by the word admin or user and nothing else"
                )
            keys.append(self._key(text, "admin" if words == ["admin"] else "user", f"{file}, line {number}"))
        return (*self._given, *keys)

    def _key(self, text: str, scope: Scope, where: str) -> Key:
        """Never repeats the key in an error."""
        named = _NAMED.fullmatch(text)
        key = named["key"] if named else text
        if not _VISIBLE.fullmatch(key):
            raise ConfigError(
                f"{where}: a key is visible ASCII characters without blanks, as KEY or NAME=KEY"
            )
        digest = self._digest(key)
        # Two keys without names are two tenants; the name says nothing about the key to anybody else.
        return Key(named["name"] if named else f"key-{digest[:4].hex()}", scope, digest)

    def _digest(self, key: str) -> bytes:
        return hmac.digest(self._secret, key.encode("utf-8", "surrogatepass"), hashlib.sha256)


def _check_distinct(keys: Sequence[Key]) -> None:
    seen: dict[bytes, Key] = {}
    for key in keys:
        other = seen.setdefault(key.digest, key)
        if other is not key and (other.name, other.scope) != (key.name, key.scope):
            raise ConfigError(
                f"the same key is given for {other.name!r} ({other.scope}) and {key.name!r} ({key.scope}); "
                "give each its own"
            )


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(file)  # noqa: PTH116 - once a second, without making a path
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
