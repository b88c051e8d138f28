"""`ProposerRecipe`: what guesses tokens, said before anything is loaded, here or in another process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from onnxgen.engine.speculation.base import Proposer
from onnxgen.metadata.model_spec import ModelSpec
from onnxgen.preprocess.vocabulary import UnusedIds

if TYPE_CHECKING:
    from onnxgen.preprocess.tokenizer import Tokenizer


class ProposerRecipe(Protocol):
    """Loads what guesses tokens for a model. Picklable, if another process is to do so."""

    def check(self, target: ModelSpec, *, tokenizer: Tokenizer | None = None) -> None:
        """Refuse what does not fit the model, by what its files say.

        Args:
            target: The model that checks.
            tokenizer: Its own, where it is at hand.

        Raises:
            ConfigError: Saying what is missing or differs.
        """
        ...

    def load(
        self, target: ModelSpec, *, unused: UnusedIds | None = None
    ) -> AbstractContextManager[Callable[[], Proposer]]:
        """Load it for a ``with`` block, which gets what makes a proposer for each engine; the caller closes these first."""
        ...
