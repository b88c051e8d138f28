"""`LoadedProposers`: the models that guess tokens for another one, loaded; each engine gets proposers of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from pathlib import Path

from onnxgen.backends.base import DecoderModel
from onnxgen.engine.speculation.base import Proposer
from onnxgen.engine.speculation.options import Speculation
from onnxgen.engine.speculation.recipe import ProposerRecipe
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata.model_spec import ModelSpec
from onnxgen.preprocess.vocabulary import UnusedIds


class LoadedProposers:
    """What guesses tokens for a model.

    Args:
        recipes: What is loaded; see `proposer_recipes`.
        target: The model that checks; the recipes have been checked against it.
        unused: Rows of the model's logits that are no token.

    Raises:
        ModelFileError: A file is missing or wrong.
        CapabilityError: A model reads inputs that nobody gives.
        BackendError: A model cannot be loaded.
    """

    def __init__(
        self, recipes: Sequence[ProposerRecipe], target: ModelSpec, *, unused: UnusedIds | None = None
    ) -> None:
        with contextlib.ExitStack() as loaded:
            self._makers = [loaded.enter_context(each.load(target, unused=unused)) for each in recipes]
            self._release = loaded.pop_all().close

    @contextlib.contextmanager
    def open(self) -> Generator[dict[str, Proposer]]:
        """Proposers for one engine, by method, for a ``with`` block that closes them.

        Raises:
            CapabilityError: A model reads inputs that nobody gives, or cannot be used so.
            BackendError: There is no memory for a cache.
        """
        with contextlib.ExitStack() as opened:
            made = [opened.enter_context(contextlib.closing(make())) for make in self._makers]
            yield {proposer.name: proposer for proposer in made}

    def close(self) -> None:
        """Release the models. Calling it twice is harmless."""
        self._release()


def proposer_recipes(
    target: ModelSpec, runtime: RuntimeConfig, speculation: Speculation, *, draft: Path | None
) -> tuple[ProposerRecipe, ...]:
    """What an engine on a model needs, beside prompt lookup.

    A draft model that is named is loaded; what the folder itself declares, a draft decoder or a head, only where the engine
    may use it, because it costs memory.

    Args:
        target: The model that checks.
        runtime: How models are run.
        speculation: What the engine does for requests that say nothing.
        draft: The folder of a draft model.
    """
    from onnxgen.engine.speculation.of_heads import HeadRecipe
    from onnxgen.engine.speculation.of_models import DraftModelRecipe

    found: list[ProposerRecipe] = []
    has_own = target.draft is not None and speculation.method == "auto"
    if draft is not None or has_own or speculation.method == "draft_model":
        found.append(DraftModelRecipe(draft, runtime))
    if uses_head(target, speculation) or speculation.method == "heads":
        found.append(HeadRecipe(runtime))
    return tuple(found)


def uses_head(target: ModelSpec, speculation: Speculation) -> bool:
    """Whether the model's own head guesses, so that the model has to give what it reads."""
    return target.head is not None and speculation.method in ("auto", "heads")


def checked_decoder(target: ModelSpec, speculation: Speculation) -> DecoderModel:
    """The model's decoder, as a backend has to load it for an engine with such speculation."""
    head = target.head
    return head.target(target.decoder) if head and uses_head(target, speculation) else target.decoder
