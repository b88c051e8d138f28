"""An engine on a scripted backend, for a model folder without a graph: what `ModelRecipe` is for real ones."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from onnxgen.engine.client.folder_grammars import FolderGrammars
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.of_model import engine_of
from onnxgen.engine.speculation.recipe import ProposerRecipe
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata import load_model_spec
from onnxgen.preprocess.vocabulary import UnusedIds
from tiny_model_folder import fake_backend
from tiny_tokenizer import EOS

CONTEXT = 32768
"""So long that a request without a limit does not end by itself."""


def scripted_backend(folder: Path, answers=None, **options):
    """A backend that answers texts with texts and then ends the sequence."""
    from onnxgen.preprocess.tokenizer import Tokenizer

    encode = Tokenizer.from_folder(folder).encode
    script = {tuple(encode(question)): encode(answer) for question, answer in (answers or {}).items()}
    defaults = {"continuations": script, "eos_token_id": EOS, "max_context": CONTEXT, "block_size": 16}
    return fake_backend(**{**defaults, **options})


@dataclass(frozen=True)
class FakeRecipe:
    """Picklable: another process makes the backend anew."""

    folder: Path
    runtime: RuntimeConfig
    engine: EngineConfig
    unused: UnusedIds | None = None
    proposers: tuple[ProposerRecipe, ...] = ()
    answers: tuple[tuple[str, str], ...] = ()

    def __call__(self):
        return self._open()

    @contextlib.contextmanager
    def _open(self):
        spec = load_model_spec(self.folder)
        backend = scripted_backend(self.folder, dict(self.answers))
        grammars = FolderGrammars(self.folder, vocab_size=backend.vocab_size, eos_ids=spec.tokens.eos)
        with contextlib.ExitStack() as opened:
            proposers = [opened.enter_context(each.open(spec, unused=self.unused)) for each in self.proposers]
            opened.enter_context(contextlib.closing(grammars))
            core = engine_of(
                spec,
                backend,
                self.engine,
                unused=self.unused,
                grammars=grammars,
                proposers={each.name: each for each in proposers},
            )
            yield opened.enter_context(contextlib.closing(core))


def kill(pid: int) -> None:
    """End a process as the system does when memory runs out."""
    os.kill(pid, signal.SIGKILL)
