"""Pooled hidden states of a decoder: whole texts over the seam, in a cache of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxgen.backends.base import Backend, SequenceInput, pack_step
from onnxgen.facade.pooling import Float32Array, Pooling


def pooled_states(backend: Backend, texts: Sequence[Sequence[int]], pooling: Pooling) -> Float32Array:
    """Pool the hidden states of each text's tokens, float32 ``[texts, hidden]``; all texts go in one step.

    Args:
        backend: Runs them; has ``capabilities.hidden_states``.
        texts: Token ids, at least one of each.
        pooling: How.

    Raises:
        BackendError: The step failed, or there is no memory for the cache.
    """
    wanted = "last" if pooling == "last" else "all"
    cache = backend.create_cache(num_seqs=len(texts), num_tokens=max(map(len, texts)))
    try:
        each = cache.geometry.num_blocks // len(texts)
        parts = [
            SequenceInput(ids, context_len=0, blocks=range(i * each, (i + 1) * each), logits=wanted)
            for i, ids in enumerate(texts)
        ]
        step = pack_step(parts, want_hidden_states=True, want_logits=False)
        states = backend.execute(step, cache).hidden_states
    finally:
        cache.close()
    assert states is not None
    if pooling == "last":
        return states
    pieces = np.split(states, np.cumsum([len(ids) for ids in texts])[:-1])
    return np.stack([piece[0] if pooling == "cls" else piece.mean(axis=0) for piece in pieces])
