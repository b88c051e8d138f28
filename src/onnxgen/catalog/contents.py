"""What is inside a fetched package, whether it is a wheel or already unpacked. Nothing in it is run."""

from __future__ import annotations

import contextlib
import zipfile
import zlib
from collections.abc import Generator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from onnxgen.errors import DownloadError


class PackageContents(Protocol):
    """The files of one package."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Path inside the package, with forward slashes, to size in bytes."""
        ...

    def open(self, member: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        """Open a file for reading.

        Raises:
            DownloadError: The package has no such file, or it turns out broken while it is read.
        """
        ...


@contextlib.contextmanager
def open_contents(folder: Path, *, requirement: str) -> Generator[PackageContents]:
    """Open what an installer left in ``folder``: one wheel, or the unpacked package.

    Raises:
        DownloadError: The folder is empty, or its wheel is truncated, broken, or has unsafe file names.
    """
    wheels = sorted(folder.glob("*.whl"))
    if not wheels:
        if not any(folder.iterdir()):
            raise DownloadError(f"the package {requirement} came without any file")
        yield _Unpacked(folder, requirement)
        return
    if len(wheels) > 1:
        raise DownloadError(
            f"expected one wheel for {requirement}, got {', '.join(wheel.name for wheel in wheels)}"
        )
    try:
        archive = zipfile.ZipFile(wheels[0])
    except (zipfile.BadZipFile, OSError) as cause:
        raise DownloadError(
            f"{wheels[0].name} ({wheels[0].stat().st_size} bytes) is truncated or not a wheel: {cause}"
        ) from cause
    with archive:
        yield _Wheel(archive, wheels[0].name)


class _Wheel:
    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._archive = archive
        self._name = name
        files = [info for info in archive.infolist() if not info.is_dir()]
        for info in files:
            _check_member(info.filename, name)
        self.sizes: Mapping[str, int] = {info.filename: info.file_size for info in files}

    @contextlib.contextmanager
    def open(self, member: str) -> Generator[IO[bytes]]:
        if member not in self.sizes:
            raise _no_such_member(member, self._name, self.sizes)
        try:
            with self._archive.open(member) as file:
                yield file
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as cause:
            raise DownloadError(f"{member} in {self._name} is broken: {cause}") from cause


class _Unpacked:
    def __init__(self, folder: Path, requirement: str) -> None:
        self._folder = folder
        self._name = requirement
        # links are left out: what they point to is not part of the package
        files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
        self.sizes: Mapping[str, int] = {
            path.relative_to(folder).as_posix(): path.stat().st_size for path in files
        }

    def open(self, member: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        if member not in self.sizes:
            raise _no_such_member(member, self._name, self.sizes)
        return (self._folder / member).open("rb")


def _check_member(member: str, package: str) -> None:
    path = PurePosixPath(member)
    if path.is_absolute() or ".." in path.parts or "\\" in member or ":" in member or "\0" in member:
        raise DownloadError(
            f"{package} holds a file named {member!r}, which would land outside its folder; it is not used"
        )


def _no_such_member(member: str, package: str, sizes: Mapping[str, int]) -> DownloadError:
    largest = sorted(sizes, key=lambda name: -sizes[name])[:5]
    return DownloadError(f"{package} has no file {member!r}; its largest files: {', '.join(largest)}")
