"""How much memory models take: of their engines' processes, and of this one."""

from __future__ import annotations

from pathlib import Path

from onnxgen.foundations.disk import size_on_disk
from onnxgen.foundations.process_memory import resident_bytes_of
from onnxgen.server.models.loaded import LoadedModel


def model_bytes(model: LoadedModel) -> int | None:
    """Memory of a loaded model now: its engine's process in RAM, and what loading added to this process.

    None where neither could be measured.
    """
    pid = None if model.llm is None else model.llm.engine_pid
    parts = [resident_bytes_of(pid), model.memory_bytes_here]
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def expected_bytes(source: str) -> int:
    """What a model that was never loaded may take at least: its files; 0 for one that is not here yet."""
    path = Path(source).expanduser()
    try:
        return size_on_disk(path)
    except (OSError, ValueError):
        return 0
