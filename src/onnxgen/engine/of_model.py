"""`engine_of`: an engine for what a model folder means."""

from __future__ import annotations

from collections.abc import Mapping

from onnxgen.backends.base import Backend
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.grammar_source import GrammarSource
from onnxgen.engine.speculation.base import Proposer
from onnxgen.metadata.model_spec import ModelSpec
from onnxgen.preprocess.vocabulary import UnusedIds


def engine_of(
    spec: ModelSpec,
    backend: Backend,
    config: EngineConfig,
    *,
    unused: UnusedIds | None = None,
    grammars: GrammarSource | None = None,
    proposers: Mapping[str, Proposer] | None = None,
) -> EngineCore:
    """An engine on a model's backend; the caller closes it.

    Args:
        spec: What the model folder means.
        backend: Executes the steps.
        config: Budgets, cache, policy.
        unused: Rows of the logits that are no token of the tokenizer, and never chosen; None: all are.
        grammars: Compiles grammars that requests ask for; stays the caller's. None: they must not.
        proposers: What guesses tokens, by method; see `EngineCore`.

    Raises:
        BackendError: The cache cannot be had.
        ConfigError: There is no such policy, or a file or folder of the configuration cannot be made.
    """
    return EngineCore(
        backend,
        config,
        eos_ids=spec.tokens.eos,
        context_length=spec.context_length,
        rope_switch_length=spec.decoder.rope_switch_length,
        num_tokens=None if unused is None else unused.num_tokens,
        unused_ids=() if unused is None else unused.holes,
        grammars=grammars,
        proposers=proposers,
    )
