"""The Python API as the commands use it, imported only when a command needs it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from onnxgen.cli.progress import make_progress
from onnxgen.errors import OptionError

if TYPE_CHECKING:
    from onnxgen.facade.generation_options import GenerationOptions
    from onnxgen.facade.llm import LLM
    from onnxgen.foundations.runtime_config import RuntimeConfig


def open_llm(model: str, *, config: RuntimeConfig, precision: str, draft_model: str | None = None) -> LLM:
    """Load a model, fetching and building it first where needed, with progress on standard error."""
    from onnxgen.facade.llm import LLM

    return LLM(model, config=config, precision=precision, draft_model=draft_model, progress=make_progress())


def under_adapter(llm: LLM, options: GenerationOptions, path: Path | None) -> GenerationOptions:
    """The options, with the adapter at a path, which is loaded; None changes nothing.

    Raises:
        OptionError: The options name an adapter themselves.
    """
    if path is None:
        return options
    if options.adapter is not None:
        raise OptionError(f"--adapter {path} and --set adapter={options.adapter} cannot be given together")
    llm.load_adapter(path, path.name)
    return options.with_changes({"adapter": path.name})


def fetch_checkpoint(source: str, *, config: RuntimeConfig) -> Path:
    """The checkpoint at a path, or the one of that name, fetched where needed."""
    from onnxgen.catalog import pull

    path = Path(source).expanduser()
    if path.exists():
        return path
    return pull(source, config=config, progress=make_progress()).path
