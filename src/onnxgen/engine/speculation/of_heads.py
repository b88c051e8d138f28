"""`head_proposer`, `HeadRecipe`: a model's own head, from what its folder means."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from onnxgen.backends.base import Backend
from onnxgen.engine.speculation.heads import HeadOptions, HeadProposer
from onnxgen.errors import CapabilityError, ConfigError
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata.model_spec import HeadSpec, ModelSpec
from onnxgen.preprocess.vocabulary import UnusedIds

if TYPE_CHECKING:
    from onnxgen.preprocess.tokenizer import Tokenizer


def head_proposer(
    target: ModelSpec,
    backend: Backend,
    *,
    unused: UnusedIds | None = None,
    options: HeadOptions | None = None,
) -> HeadProposer:
    """A proposer for an engine on ``target``; the caller closes it, and the backend after it.

    The engine's backend must have been loaded with ``target.head.target(target.decoder)``, so that it gives what the head
    reads. Beyond the length at which the model changes its rotary factors, the head begins its rows again.

    Args:
        target: The model that checks, with a head.
        backend: Executes the head's steps.
        unused: Rows of the logits of ``target`` that are no token; None: all are.
        options: Budgets.

    Raises:
        ConfigError: The model has no head.
        CapabilityError: The head's graph reads other inputs than heads do, or keeps a recurrent state.
        BackendError: The cache cannot be had.
    """
    head = _head_of(target)
    missing = backend.capabilities.required_inputs
    if missing:
        raise CapabilityError(
            f"{head.decoder.path} cannot guess tokens: it reads {', '.join(sorted(missing))}, which nobody gives"
        )
    switch = head.decoder.rope_switch_length
    return HeadProposer(
        backend,
        head,
        vocab_size=target.vocab_size,
        options=options,
        eos_ids=target.tokens.eos,
        num_tokens=None if unused is None else unused.num_tokens,
        unused_ids=() if unused is None else unused.holes,
        max_seq_tokens=switch,
    )


@dataclass(frozen=True, slots=True)
class HeadRecipe:
    """Loads a model's head. Picklable, so that another process can do so.

    Attributes:
        runtime: How it is run.
        options: Budgets.
    """

    runtime: RuntimeConfig
    options: HeadOptions = field(default_factory=HeadOptions)

    def check(self, target: ModelSpec, *, tokenizer: Tokenizer | None = None) -> None:
        """Refuse a model that has no head.

        Raises:
            ConfigError: Naming its folder.
        """
        _head_of(target)

    @contextlib.contextmanager
    def load(
        self, target: ModelSpec, *, unused: UnusedIds | None = None
    ) -> Generator[Callable[[], HeadProposer]]:
        """The head, loaded for a ``with`` block, which gets what makes a proposer for each engine.

        Args:
            target: The model that checks.
            unused: As for `head_proposer`, whose errors the proposers raise when they are made.

        Raises:
            ConfigError: The model has no head.
            ModelFileError: The head's file is missing or wrong.
            BackendError: It cannot be loaded.
        """
        from onnxgen.backends import load_backend

        with contextlib.closing(load_backend(_head_of(target).decoder, self.runtime)) as backend:
            yield partial(head_proposer, target, backend, unused=unused, options=self.options)


def _head_of(target: ModelSpec) -> HeadSpec:
    if target.head is None:
        raise ConfigError(f"{target.folder} has no head for drafts: no section mtp or eagle that can be used")
    return target.head
