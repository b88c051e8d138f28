"""`ProposerRecipe`: what guesses tokens, said so that another process can make it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from onnxgen.engine.speculation.base import Proposer
from onnxgen.metadata.model_spec import ModelSpec
from onnxgen.preprocess.vocabulary import UnusedIds


class ProposerRecipe(Protocol):
    """Makes what guesses tokens for a model. Picklable."""

    def open(self, target: ModelSpec, *, unused: UnusedIds | None = None) -> AbstractContextManager[Proposer]:
        """A proposer, for a ``with`` block that closes it and what it has loaded."""
        ...
