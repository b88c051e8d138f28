"""`head_proposer`, `HeadRecipe`: a model's own head, from what its folder means."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from onnxgen.backends.base import Backend
from onnxgen.engine.speculation.heads import HeadOptions, HeadProposer
from onnxgen.errors import CapabilityError, ConfigError
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata.model_spec import ModelSpec
from onnxgen.preprocess.vocabulary import UnusedIds


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
    head = target.head
    if head is None:
        raise ConfigError(f"{target.folder} has no head for drafts: no section mtp or eagle that can be used")
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

    def open(
        self, target: ModelSpec, *, unused: UnusedIds | None = None
    ) -> AbstractContextManager[HeadProposer]:
        """A proposer, for a ``with`` block that closes it and the head.

        Args:
            target: The model that checks.
            unused: As for `head_proposer`.

        Raises:
            ConfigError: The model has no head.
            ModelFileError: The head's file is missing or wrong.
            CapabilityError: The head cannot be used.
            BackendError: It cannot be loaded, or its cache cannot be had.
        """
        return self._open(target, unused)

    @contextlib.contextmanager
    def _open(self, target: ModelSpec, unused: UnusedIds | None) -> Generator[HeadProposer]:
        from onnxgen.backends import load_backend

        if target.head is None:
            raise ConfigError(
                f"{target.folder} has no head for drafts: no section mtp or eagle that can be used"
            )
        with (
            contextlib.closing(load_backend(target.head.decoder, self.runtime)) as backend,
            contextlib.closing(
                head_proposer(target, backend, unused=unused, options=self.options)
            ) as proposer,
        ):
            yield proposer
