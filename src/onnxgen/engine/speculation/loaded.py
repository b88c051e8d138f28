"""`LoadedProposers`: the models that guess tokens for another one, loaded; each engine gets proposers of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from contextlib import AbstractContextManager
from pathlib import Path

from onnxgen.backends.base import Backend, DecoderModel
from onnxgen.engine.speculation.base import Proposer
from onnxgen.engine.speculation.options import Speculation
from onnxgen.engine.speculation.recipe import ProposerRecipe
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata.model_spec import ModelSpec
from onnxgen.preprocess.vocabulary import UnusedIds


class LoadedProposers:
    """What guesses tokens for a model.

    A draft model that is named is loaded; what the folder itself declares, a draft decoder or a head, only where
    ``speculation`` may use it, because it costs memory.

    Args:
        target: The model that checks.
        runtime: How models are run.
        speculation: What an engine does for requests that say nothing.
        draft: The folder of a draft model.
        own_draft: The folder's own draft decoder, if it is loaded already; stays the caller's to close.
        unused: Rows of the model's logits that are no token.

    Raises:
        ConfigError: The draft model has another vocabulary.
        ModelFileError: A file is missing or wrong.
        CapabilityError: A model reads inputs that nobody gives.
        BackendError: A model cannot be loaded.
    """

    def __init__(
        self,
        target: ModelSpec,
        runtime: RuntimeConfig,
        speculation: Speculation,
        *,
        draft: Path | None = None,
        own_draft: Backend | None = None,
        unused: UnusedIds | None = None,
    ) -> None:
        self._target, self._unused = target, unused
        self._draft: tuple[DecoderModel, Backend] | None = None
        self._head: Backend | None = None
        with contextlib.ExitStack() as loaded:
            decoder = _draft_decoder(target, speculation, draft)
            if decoder is not None and (own_draft is None or draft is not None):
                self._draft = decoder, _load(decoder, runtime, loaded)
            elif decoder is not None and own_draft is not None:
                self._draft = decoder, own_draft
            if target.head is not None and uses_head(target, speculation):
                self._head = _load(target.head.decoder, runtime, loaded)
            self._release = loaded.pop_all().close

    def open(self) -> AbstractContextManager[dict[str, Proposer]]:
        """Proposers for one engine, by method, for a ``with`` block that closes them.

        Raises:
            CapabilityError: A model reads inputs that nobody gives, or cannot be used so.
            BackendError: There is no memory for a cache.
        """
        return self._open()

    @contextlib.contextmanager
    def _open(self) -> Generator[dict[str, Proposer]]:
        from onnxgen.engine.speculation.of_heads import head_proposer
        from onnxgen.engine.speculation.of_models import draft_proposer

        found: dict[str, Proposer] = {}
        with contextlib.ExitStack() as stack:
            if self._draft is not None:
                found["draft_model"] = stack.enter_context(
                    contextlib.closing(draft_proposer(self._target, *self._draft, unused=self._unused))
                )
            if self._head is not None:
                found["heads"] = stack.enter_context(
                    contextlib.closing(head_proposer(self._target, self._head, unused=self._unused))
                )
            yield found

    def close(self) -> None:
        """Release the models. Calling it twice is harmless."""
        self._release()


def uses_head(target: ModelSpec, speculation: Speculation) -> bool:
    """Whether the model's own head guesses, so that the model has to give what it reads."""
    return target.head is not None and speculation.method in ("auto", "heads")


def checked_decoder(target: ModelSpec, speculation: Speculation) -> DecoderModel:
    """The model's decoder, as a backend has to load it for an engine with such speculation."""
    head = target.head
    return head.target(target.decoder) if head and uses_head(target, speculation) else target.decoder


def proposer_recipes(
    target: ModelSpec, runtime: RuntimeConfig, speculation: Speculation, *, draft: Path | None
) -> tuple[ProposerRecipe, ...]:
    """What `LoadedProposers` loads, said for another process."""
    from onnxgen.engine.speculation.of_heads import HeadRecipe
    from onnxgen.engine.speculation.of_models import DraftModelRecipe

    found: list[ProposerRecipe] = []
    if draft is not None or (target.draft is not None and speculation.method in ("auto", "draft_model")):
        found.append(DraftModelRecipe(draft, runtime))
    if uses_head(target, speculation):
        found.append(HeadRecipe(runtime))
    return tuple(found)


def _draft_decoder(target: ModelSpec, speculation: Speculation, draft: Path | None) -> DecoderModel | None:
    from onnxgen.engine.speculation.of_models import check_draft_folder
    from onnxgen.metadata.load import load_model_spec

    if draft is not None:
        spec = load_model_spec(draft)
        check_draft_folder(target, spec)
        return spec.decoder
    return target.draft if speculation.method in ("auto", "draft_model") else None


def _load(decoder: DecoderModel, runtime: RuntimeConfig, loaded: contextlib.ExitStack) -> Backend:
    from onnxgen.backends import load_backend

    return loaded.enter_context(contextlib.closing(load_backend(decoder, runtime)))
