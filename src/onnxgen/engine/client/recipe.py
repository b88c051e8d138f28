"""`ModelRecipe`: an engine on a model folder."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from onnxgen.engine.client.base import Core
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.speculation.recipe import ProposerRecipe
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
        proposers: What guesses tokens, beside prompt lookup; no two with one name.
    """

    folder: Path
    runtime: RuntimeConfig
    engine: EngineConfig
    unused: UnusedIds | None = None
    proposers: tuple[ProposerRecipe, ...] = ()

    def __call__(self) -> AbstractContextManager[Core]:
        """The engine, for a ``with`` block that closes it and the model.

        Raises:
            ModelFileError: A file of the folder is missing or wrong.
            BackendError: The model cannot be loaded, or the cache cannot be had.
            ConfigError: A proposer does not fit the model.
        """
        return self._open()

    @contextlib.contextmanager
    def _open(self) -> Generator[Core]:
        from onnxgen.backends import load_backend
        from onnxgen.engine.client.folder_grammars import FolderGrammars
        from onnxgen.engine.of_model import engine_of
        from onnxgen.engine.speculation.loaded import LoadedProposers
        from onnxgen.metadata.load import load_model_spec

        spec = load_model_spec(self.folder)
        with contextlib.ExitStack() as opened:
            # first, since these may find that they do not fit, which costs less than the model
            for each in self.proposers:
                each.check(spec)
            guessing = LoadedProposers(self.proposers, spec, unused=self.unused)
            opened.callback(guessing.close)
            proposers = opened.enter_context(guessing.open())
            decoder = spec.decoder
            if spec.head is not None and any(each.needs_hidden_states for each in proposers.values()):
                decoder = spec.head.target(decoder)
            backend = opened.enter_context(contextlib.closing(load_backend(decoder, self.runtime)))
            grammars = FolderGrammars(self.folder, vocab_size=backend.vocab_size, eos_ids=spec.tokens.eos)
            opened.callback(grammars.close)
            core = engine_of(
                spec,
                backend,
                self.engine,
                unused=self.unused,
                grammars=grammars,
                proposers=proposers,
            )
            yield opened.enter_context(contextlib.closing(core))
