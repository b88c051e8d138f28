"""Access to a Hugging Face hub through the ``huggingface_hub`` library, which is optional."""

from __future__ import annotations

import contextlib
import importlib
import logging
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from onnxgen.catalog.watch import POLL_S, GrowthMeter
from onnxgen.errors import DownloadError
from onnxgen.foundations.disk import size_on_disk
from onnxgen.foundations.progress import Progress


class HubClient(Protocol):
    """What we need of a hub."""

    def sizes(self, repo: str, *, revision: str | None) -> Mapping[str, int]:
        """Names of a repository's files to their sizes in bytes.

        Raises:
            DownloadError: The repository is unknown, closed or cannot be reached.
        """
        ...

    def fetch(
        self,
        repo: str,
        files: Sequence[str],
        *,
        revision: str | None,
        folder: Path | None,
        total_bytes: int | None,
        progress: Progress,
    ) -> Path:
        """Fetch files into ``folder``, or into the hub's own cache; return the folder that holds them.

        Raises:
            DownloadError: As `sizes`.
        """
        ...

    def cached(self, repo: str, *, revision: str | None) -> Path | None:
        """The folder in the hub's own cache that holds what was fetched before, without any network."""
        ...


class HuggingFaceHub:
    """The hub that ``huggingface_hub`` is configured for (``HF_ENDPOINT``, ``HF_HOME``, ``HF_TOKEN``)."""

    def sizes(self, repo: str, *, revision: str | None) -> Mapping[str, int]:
        """See `HubClient.sizes`."""
        library = _library()
        with _translated(repo), _quiet(library):
            info = library.HfApi().model_info(repo, revision=revision, files_metadata=True)
            return {file.rfilename: file.size or 0 for file in info.siblings or ()}

    def fetch(
        self,
        repo: str,
        files: Sequence[str],
        *,
        revision: str | None,
        folder: Path | None,
        total_bytes: int | None,
        progress: Progress,
    ) -> Path:
        """See `HubClient.fetch`. An interrupted download into the hub's own cache is resumed."""
        library = _library()
        watched = folder or _blobs(library, repo)
        before = size_on_disk(watched)
        with (
            _translated(repo),
            progress.start(f"Fetching hf:{repo}", total=total_bytes) as task,
            _quiet(library),
        ):
            meter = GrowthMeter(task, lambda: size_on_disk(watched) - before, total=total_bytes)
            path = _polled(
                lambda: library.snapshot_download(
                    repo, revision=revision, allow_patterns=list(files), local_dir=folder
                ),
                meter.poll,
            )
            meter.finish()
        missing = [name for name in files if not (Path(path) / name).is_file()]
        if missing:
            raise DownloadError(f"hf:{repo} has no file {', '.join(missing)}")
        return Path(path)

    def cached(self, repo: str, *, revision: str | None) -> Path | None:
        """See `HubClient.cached`."""
        library = _library()
        try:
            return Path(library.snapshot_download(repo, revision=revision, local_files_only=True))
        except (OSError, ValueError):
            return None


def _library() -> Any:
    try:
        # its parts are loaded on demand, and what was never imported is not there as an attribute
        for part in ("constants", "utils"):
            importlib.import_module(f"huggingface_hub.{part}")
        return importlib.import_module("huggingface_hub")
    except ImportError as cause:
        raise DownloadError(
            "fetching from a Hugging Face hub needs the huggingface_hub library; "
            "run: pip install 'onnxgen[hub]'"
        ) from cause


def _blobs(library: Any, repo: str) -> Path:
    return Path(library.constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}" / "blobs"


@contextlib.contextmanager
def _translated(repo: str) -> Generator[None]:
    try:
        yield
    except DownloadError:
        raise
    except Exception as cause:
        # the library's errors come from several HTTP libraries, which differ by its version
        kind = type(cause).__name__
        lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
        hint = "; log in with 'hf auth login' after accepting its terms" if "Gated" in kind else ""
        raise DownloadError(f"hf:{repo}: {kind}: {' '.join(lines[:3])}{hint}") from cause


@contextlib.contextmanager
def _quiet(library: Any) -> Generator[None]:
    """Keep the library's own progress bars and notices of retries off the terminal: ours are there."""
    logger = logging.getLogger("huggingface_hub")
    level, shows_bars = logger.level, not library.utils.are_progress_bars_disabled()
    logger.setLevel(logging.ERROR)
    if shows_bars:
        library.utils.disable_progress_bars()
    try:
        yield
    finally:
        logger.setLevel(level)
        if shows_bars:
            library.utils.enable_progress_bars()


def _polled(work: Callable[[], str], poll: Callable[[], None]) -> str:
    """Run ``work`` in a thread, polling meanwhile; the thread does not keep an interrupted process alive."""
    results: list[str] = []
    failures: list[Exception] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as failure:  # noqa: BLE001 - raised again by the thread that waits
            failures.append(failure)

    thread = threading.Thread(target=run, daemon=True, name="hub-download")
    thread.start()
    while thread.is_alive():
        thread.join(POLL_S)
        poll()
    if failures:
        raise failures[0]
    return results[0]
