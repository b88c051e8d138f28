"""The Python API as the commands use it, imported only when a command needs it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from onnxgen.cli.progress import make_progress

if TYPE_CHECKING:
    from onnxgen.facade.llm import LLM
    from onnxgen.foundations.runtime_config import RuntimeConfig


def open_llm(model: str, *, config: RuntimeConfig, precision: str) -> LLM:
    """Load a model, fetching and building it first where needed, with progress on standard error."""
    from onnxgen.facade.llm import LLM

    return LLM(model, config=config, precision=precision, progress=make_progress())


def fetch_checkpoint(source: str, *, config: RuntimeConfig) -> Path:
    """The checkpoint at a path, or the one of that name, fetched where needed."""
    from onnxgen.catalog import pull

    path = Path(source).expanduser()
    if path.exists():
        return path
    return pull(source, config=config, progress=make_progress()).path
