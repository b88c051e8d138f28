"""`ModelRecipe`: an engine on a model folder."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from onnxgen.engine.client.base import Core
from onnxgen.engine.config import EngineConfig
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.preprocess.vocabulary import UnusedIds


@dataclass(frozen=True, slots=True)
class ModelRecipe:
    """Loads a model folder and makes an engine on it. Picklable, so that another process can do so.

    Attributes:
        folder: The model folder.
        runtime: How the model is run.
        engine: How its engine is configured.
        unused: Rows of the logits that are no token of the tokenizer; None: all are tokens.
    """

    folder: Path
    runtime: RuntimeConfig
    engine: EngineConfig
    unused: UnusedIds | None = None

    def __call__(self) -> AbstractContextManager[Core]:
        """The engine, for a ``with`` block that closes it and the model.

        Raises:
            ModelFileError: A file of the folder is missing or wrong.
            BackendError: The model cannot be loaded, or the cache cannot be had.
        """
        return self._open()

    @contextlib.contextmanager
    def _open(self) -> Generator[Core]:
        from onnxgen.backends import load_backend
        from onnxgen.engine.client.folder_grammars import FolderGrammars
        from onnxgen.engine.of_model import engine_of
        from onnxgen.metadata.load import load_model_spec

        spec = load_model_spec(self.folder)
        with (
            contextlib.closing(load_backend(spec.decoder, self.runtime)) as backend,
            contextlib.closing(
                FolderGrammars(self.folder, vocab_size=backend.vocab_size, eos_ids=spec.tokens.eos)
            ) as grammars,
            contextlib.closing(
                engine_of(spec, backend, self.engine, unused=self.unused, grammars=grammars)
            ) as core,
        ):
            yield core
