"""`draft_proposer`, `DraftModelRecipe`: a draft model for a model, from what folders mean."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from onnxgen.backends.base import Backend, DecoderModel
from onnxgen.engine.speculation.draft_options import DraftModelOptions
from onnxgen.engine.speculation.recipe import ProposerRecipe
from onnxgen.errors import CapabilityError, ConfigError
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata.model_spec import ModelSpec
from onnxgen.preprocess.vocabulary import UnusedIds

if TYPE_CHECKING:
    # what loads slowly is imported where it is used: recipes are made where no model is loaded
    from onnxgen.engine.speculation.draft_model import DraftModelProposer
    from onnxgen.preprocess.tokenizer import Tokenizer


def draft_proposer(
    target: ModelSpec,
    draft: DecoderModel,
    backend: Backend,
    *,
    unused: UnusedIds | None = None,
    options: DraftModelOptions | None = None,
) -> DraftModelProposer:
    """A proposer for an engine on ``target``; the caller closes it, and the backend after it.

    Beyond the length at which the draft model changes its rotary factors, it is not used.

    Args:
        target: The model that checks.
        draft: The model that guesses, of the same vocabulary: see `check_draft_folder`.
        backend: Executes the draft model's steps.
        unused: Rows of the logits of ``target`` that are no token; None: all are.
        options: Budgets.

    Raises:
        CapabilityError: The draft model reads inputs that nobody gives.
        BackendError: The cache cannot be had.
    """
    from onnxgen.engine.speculation.draft_model import DraftModelProposer

    missing = backend.capabilities.required_inputs
    if missing:
        raise CapabilityError(
            f"{draft.path} cannot guess tokens: it reads {', '.join(sorted(missing))}, which only an adapter gives"
        )
    switch = draft.rope_switch_length
    return DraftModelProposer(
        backend,
        vocab_size=target.vocab_size,
        options=options,
        eos_ids=target.tokens.eos,
        num_tokens=None if unused is None else unused.num_tokens,
        unused_ids=() if unused is None else unused.holes,
        max_seq_tokens=draft.context_length if switch is None else min(draft.context_length, switch),
    )


def check_draft_folder(target: ModelSpec, draft: ModelSpec, *, tokenizer: Tokenizer | None = None) -> None:
    """Refuse a draft model of another vocabulary, before it is loaded; see `check_draft_vocabulary`.

    Args:
        target: The model that checks.
        draft: The model that guesses.
        tokenizer: The former's, where it is at hand.

    Raises:
        ConfigError: Naming what differs.
        TokenizerError: A folder has no tokenizer, or a broken one.
    """
    from onnxgen.engine.speculation.draft_vocabulary import check_draft_vocabulary
    from onnxgen.preprocess.tokenizer import Tokenizer

    check_draft_vocabulary(
        tokenizer or Tokenizer.from_folder(target.tokenizer_dir),
        Tokenizer.from_folder(draft.tokenizer_dir),
        target_rows=target.vocab_size,
        draft_rows=draft.vocab_size,
        target_eos=target.tokens.eos,
        draft_eos=draft.tokens.eos,
    )


@dataclass(frozen=True, slots=True)
class DraftModelRecipe:
    """Loads a draft model. Picklable, so that another process can do so.

    Attributes:
        folder: Its model folder; None: the decoder that the folder of the model has in its section ``draft``.
        runtime: How it is run.
        options: Budgets.
    """

    folder: Path | None
    runtime: RuntimeConfig
    options: DraftModelOptions = field(default_factory=DraftModelOptions)

    def check(self, target: ModelSpec, *, tokenizer: Tokenizer | None = None) -> None:
        """Refuse a draft model of another vocabulary, and a model that is to have one of its own and has none.

        Raises:
            ConfigError: Naming what differs or is missing.
            ModelFileError: A file of the draft model's folder is missing or wrong.
            TokenizerError: A folder has no tokenizer, or a broken one.
        """
        draft = self._named()
        if draft is None:
            _own_draft(target)
        else:
            check_draft_folder(target, draft, tokenizer=tokenizer)

    @contextlib.contextmanager
    def load(
        self, target: ModelSpec, *, unused: UnusedIds | None = None
    ) -> Generator[Callable[[], DraftModelProposer]]:
        """The draft model, loaded for a ``with`` block, which gets what makes a proposer for each engine.

        Args:
            target: The model that checks.
            unused: As for `draft_proposer`, whose errors the proposers raise when they are made.

        Raises:
            ConfigError: There is no draft model in the model's folder.
            ModelFileError: A file of the folder is missing or wrong.
            BackendError: It cannot be loaded.
        """
        from onnxgen.backends import load_backend

        named = self._named()
        decoder = _own_draft(target) if named is None else named.decoder
        with contextlib.closing(load_backend(decoder, self.runtime)) as backend:
            yield partial(draft_proposer, target, decoder, backend, unused=unused, options=self.options)

    def _named(self) -> ModelSpec | None:
        from onnxgen.metadata.load import load_model_spec

        return None if self.folder is None else load_model_spec(self.folder)


@dataclass(frozen=True, slots=True)
class LoadedDraft:
    """A recipe for the draft decoder of a model's own folder that is loaded already, in this process.

    Attributes:
        backend: Executes it; stays the caller's to close.
    """

    backend: Backend

    def check(self, target: ModelSpec, *, tokenizer: Tokenizer | None = None) -> None:
        """Refuse a model without one, as `DraftModelRecipe` does."""
        _own_draft(target)

    @contextlib.contextmanager
    def load(
        self, target: ModelSpec, *, unused: UnusedIds | None = None
    ) -> Generator[Callable[[], DraftModelProposer]]:
        """What makes proposers, as `DraftModelRecipe` has it."""
        yield partial(draft_proposer, target, _own_draft(target), self.backend, unused=unused)


def with_own_draft(recipes: Sequence[ProposerRecipe], backend: Backend) -> list[ProposerRecipe]:
    """Recipes that take the draft decoder of the model's folder as it is loaded already."""
    return [
        LoadedDraft(backend) if isinstance(each, DraftModelRecipe) and each.folder is None else each
        for each in recipes
    ]


def _own_draft(target: ModelSpec) -> DecoderModel:
    if target.draft is None:
        raise ConfigError(f"{target.folder} has no draft model of its own; name the folder of one")
    return target.draft
