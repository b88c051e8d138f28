"""Whether a decoder's head is its embedding, from what the configuration says and the weights show."""

from __future__ import annotations

import numpy as np

from onnxgen.builder.spec import EMBEDDING, HEAD, DecoderSpec
from onnxgen.builder.weights import WeightSource
from onnxgen.errors import BuildError

_ROWS_AT_ONCE = 4096


def is_tied(source: WeightSource, spec: DecoderSpec) -> bool:
    """Whether the head is the embedding.

    Raises:
        BuildError: The configuration and the weights contradict each other.
    """
    if HEAD not in source.names:
        if spec.tied is False:
            raise BuildError(
                f"{source.path}: the configuration says tie_word_embeddings is false, but there is no "
                f"{HEAD!r}; set it to true if the head is the embedding, or fetch the missing tensor"
            )
        return True
    if spec.tied is False:
        return False
    if _same_values(source):
        return True
    if spec.tied:
        raise BuildError(
            f"{source.path}: the configuration says tie_word_embeddings is true, but {HEAD!r} differs from "
            f"{EMBEDDING!r}; set it to false if the head has weights of its own, or remove the stale tensor"
        )
    return False


def _same_values(source: WeightSource) -> bool:
    if source.shape(HEAD) != source.shape(EMBEDDING):
        return False
    head, embedding = source.load(HEAD), source.load(EMBEDDING)
    for start in range(0, head.shape[0], _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        if not np.array_equal(head[rows].astype(np.float32), embedding[rows].astype(np.float32)):
            return False
    return True
