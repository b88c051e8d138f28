"""The merges of a SentencePiece BPE vocabulary, from its scores."""

from __future__ import annotations

import math

from onnxgen.errors import TokenizerError
from onnxgen.preprocess.gguf_vocabulary import GgufVocabulary, TokenType


def derive_merges(vocabulary: GgufVocabulary, tokens: list[str]) -> list[tuple[str, str]]:
    """Merges in the order of their priority.

    SentencePiece has no list of merges: it joins the two neighbours whose union has the best score. As
    merges that is each way to cut a token in two tokens, tokens with better scores first. Only text
    takes part: control, byte and unknown tokens are never made of others.

    Args:
        vocabulary: Types and scores.
        tokens: Texts by id, spelled as they are merged.

    Raises:
        TokenizerError: The vocabulary has no scores.
    """
    scores = vocabulary.scores
    if scores is None:
        raise TokenizerError(
            "the GGUF metadata has no key 'tokenizer.ggml.scores' and no merges, "
            "so a SentencePiece tokenizer can't be made of it"
        )
    types = vocabulary.types
    merging = (TokenType.NORMAL, TokenType.USER_DEFINED, TokenType.UNDEFINED)
    ids = [i for i, kind in enumerate(types) if kind in merging]
    parts = {tokens[i] for i in ids}
    # Tokens that a user defined come before all others, whatever score the converter gave them.
    rank = [math.inf if types[i] is TokenType.USER_DEFINED else scores[i] for i in range(len(tokens))]
    ids.sort(key=lambda i: (-rank[i], i))
    merges: list[tuple[str, str]] = []
    for i in ids:
        token = tokens[i]
        for cut in range(len(token) - 1, 0, -1):
            left = token[:cut]
            if left in parts:
                right = token[cut:]
                if right in parts:
                    merges.append((left, right))
    return merges
