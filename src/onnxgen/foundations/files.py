"""Files of model folders: read with useful errors, confined to their folder, written all or nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Generator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, cast

from onnxgen.errors import ModelFileError
from onnxgen.foundations.json_text import json_kind, parse_json
from onnxgen.foundations.work_folders import ASIDE, OLD, PARTIAL, remove_leftovers, work_folder

_LFS_POINTER = b"version https://git-lfs"


def check_file(path: Path, *, error: type[ModelFileError] = ModelFileError) -> Path:
    """Refuse a file that is missing, a folder, empty or only a pointer to its content.

    Raises:
        ModelFileError: (or ``error``) naming the file and what to do.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as cause:  # a NUL in the name is a ValueError
        raise error(_why_missing(path, cause)) from cause
    if stat.S_ISDIR(status.st_mode):
        raise error(f"{path} is a folder, expected a file")
    if not stat.S_ISREG(status.st_mode):
        raise error(f"{path} is a device or a pipe, expected a file")
    if status.st_size == 0:
        raise error(f"{path} is empty (0 bytes); the download was probably interrupted, fetch it again")
    with path.open("rb") as file:
        if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
            raise error(
                f"{path} is a Git LFS pointer, not the file itself; run 'git lfs pull' in its repository"
            )
    return path


def is_present(path: Path) -> bool:
    """Whether anything has that name, a link that leads nowhere included: such a file was meant to be there."""
    return os.path.lexists(path)


def read_text(path: Path, *, error: type[ModelFileError] = ModelFileError) -> str:
    """Read a UTF-8 file, with or without a byte order mark.

    Raises:
        ModelFileError: (or ``error``) when the file is missing, empty, a pointer or not UTF-8.
    """
    check_file(path, error=error)
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as cause:
        raise error(f"{path} is not UTF-8 text: {cause}") from cause


def read_json(path: Path, *, strict: bool = False, error: type[ModelFileError] = ModelFileError) -> Any:
    """Read a JSON file; ``strict`` as in `parse_json`.

    Raises:
        ModelFileError: (or ``error``) naming the file, and line and column where it stops being JSON.
    """
    return parse_json(read_text(path, error=error), source=path, strict=strict, error=error)


def read_json_object(
    path: Path, *, strict: bool = False, error: type[ModelFileError] = ModelFileError
) -> dict[str, Any]:
    """Read a JSON file that must hold an object; ``strict`` as in `parse_json`.

    Raises:
        ModelFileError: (or ``error``) as `read_json`, or when it holds anything else.
    """
    content = read_json(path, strict=strict, error=error)
    if not isinstance(content, dict):
        raise error(f"{path} holds {json_kind(content)}, expected an object")
    return cast("dict[str, Any]", content)


def check_relative(
    name: str, *, where: object, error: type[ModelFileError] = ModelFileError
) -> tuple[str, ...]:
    """Refuse a file name that could leave its folder by its spelling; return its steps.

    Parent steps, absolute paths and drive letters are refused, with slash and backslash as separators on
    every system, so that a folder means the same everywhere.

    Raises:
        ModelFileError: (or ``error``) naming ``where`` it was found and the name.
    """
    if not name.strip() or "\0" in name:
        raise error(f"{where}: file name {name!r} is not usable")
    if name.startswith(("/", "\\")) or PureWindowsPath(name).drive:
        raise error(f"{where}: file name {name!r} is absolute; it must be relative to the model folder")
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if ".." in parts:
        raise error(f"{where}: file name {name!r} leaves the model folder")
    return parts


def confined(
    folder: Path, relative: str, *, where: object = None, error: type[ModelFileError] = ModelFileError
) -> Path:
    """Resolve a file name found inside a model against its folder, refusing to leave it.

    Names are checked as in `check_relative`. Symbolic links may point anywhere inside the folder, and, as
    hub caches lay them out (``snapshots/REVISION/.../file`` to ``blobs/HASH``), into the ``blobs`` folder
    beside ``snapshots``.

    Args:
        folder: The model folder.
        relative: The name found inside the model.
        where: Where it was found, for messages; None is the folder.
        error: Class of the error.

    Raises:
        ModelFileError: (or ``error``) naming where it was found and the path.
    """
    where = where or folder
    path = folder.joinpath(*check_relative(relative, where=where, error=error))
    try:
        resolved, root = path.resolve(), folder.resolve()
    except (OSError, RuntimeError) as cause:  # a loop of links is a RuntimeError before Python 3.13
        raise error(f"{where}: {relative!r} cannot be followed: {cause}") from cause
    if not any(resolved.is_relative_to(allowed) for allowed in (root, *_hub_blobs(root))):
        raise error(f"{where}: {relative!r} links to {resolved}, outside the model folder")
    return path


def _why_missing(path: Path, cause: OSError | ValueError) -> str:
    if isinstance(cause, FileNotFoundError | NotADirectoryError):
        if path.is_symlink():
            return f"{path} is a link to {path.readlink()}, which does not exist; fetch it again"
        return f"{path} does not exist"
    reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
    return f"{path} cannot be opened: {reason}"


def _hub_blobs(root: Path) -> list[Path]:
    return [parent.parent / "blobs" for parent in root.parents if parent.name == "snapshots"]


@contextlib.contextmanager
def atomic_directory(target: Path) -> Generator[Path]:
    """Yield a new folder beside ``target`` that takes its place when the block ends without an error.

    Until then ``target`` is as it was; after an error, an interrupt included, it still is, and nothing is
    left behind. What a process that was killed left behind is removed first.

    Raises:
        ModelFileError: ``target`` is a file.
    """
    if target.is_file():
        raise ModelFileError(f"{target} is a file, expected a folder or nothing; choose another name")
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target)
    with work_folder(target, PARTIAL) as work:
        yield work
        work.chmod(0o777 & ~_umask())
        if target.exists():
            _swap(work, target)
        else:
            work.replace(target)


def _swap(work: Path, target: Path) -> None:
    with work_folder(target, ASIDE) as aside:
        old = aside / OLD
        try:
            target.replace(old)
            work.replace(target)
        except BaseException:
            if old.exists() and not target.exists():
                old.replace(target)
            raise


@contextlib.contextmanager
def atomic_file(target: Path) -> Generator[Path]:
    """Yield the path of a new file that takes the place of ``target`` when the block ends without an error."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent)
    os.close(handle)
    work = Path(name)
    try:
        yield work
        work.chmod(0o666 & ~_umask())
        work.replace(target)
    finally:
        work.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file in a folder that exists: whole, or not at all.

    Raises:
        OSError: The folder does not exist, or cannot be written to.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))
    with atomic_file(path) as work:
        work.write_bytes(content)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
