"""Text operators of ``com.microsoft``: Tokenizer, MurmurHash3, NGramRepeatBlock, BifurcationDetector, WordConvEmbedding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.indexing import checked_indices, integers, scalar
from onnxgen.graph.cpu.murmur import murmur3_32
from onnxgen.graph.cpu.patterns import compile_pattern, text_of, utf8
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

_START, _END = "\x02", "\x03"


@TABLE.operator("Tokenizer", 1, domain=MICROSOFT)
def tokenizer(node: NodeSpec) -> Kernel:
    """Strings cut at separators or into matches, on a new last axis filled up with ``pad_value``."""
    cut, marks = _cutter(node), bool(node.attr("mark", 0))
    padding, shortest = node.attr("pad_value", ""), node.attr("mincharnum", 1)

    def run(x: np.ndarray) -> np.ndarray:
        if x.ndim not in (1, 2):
            raise KernelError(f"{node}: needs shape [C] or [N, C], its input is of shape {x.shape}")
        if not x.size:
            return np.empty(x.shape, object)
        rows = [[token for token in cut(text) if len(token) >= shortest] for text in x.reshape(-1)]
        width = max(map(len, rows))
        if marks:
            rows, width = [[_START, *row, _END] for row in rows], width + 2
        y = np.full((x.size, width), padding, object)
        for place, row in enumerate(rows):
            y[place, : len(row)] = row
        return y.reshape(*x.shape, width)

    return Kernel(run)


def _cutter(node: NodeSpec) -> Callable[[str], Iterator[str]]:
    separators, expression = node.attr("separators", ()), node.attr("tokenexp")
    if bool(separators) == (expression is not None):
        raise InvalidGraphError(f"{node}: needs one of separators and tokenexp")
    if expression == "." or list(separators) == [""]:
        return iter
    if expression is not None:
        matches = compile_pattern(node, expression, longest=True)

        def found(text: str) -> Iterator[str]:
            return (text_of(match[0]) for match in matches.finditer(utf8(text)) if match[0])

        return found
    patterns = [compile_pattern(node, pattern, longest=True) for pattern in separators]

    def between(text: str) -> Iterator[str]:
        parts = [utf8(text)]
        for pattern in patterns:
            parts = [piece for part in parts for piece in _outside(pattern, part)]
        return map(text_of, parts)

    return between


def _outside(pattern: Any, text: bytes) -> Iterator[bytes]:
    """The parts of a text that are outside of the matches, empty ones too.

    Empty matches separate nothing (ONNX Runtime loses the character behind them).
    """
    start = 0
    for match in pattern.finditer(text):
        if match[0]:
            yield text[start : match.start()]
            start = match.end()
    yield text[start:]


@TABLE.operator("MurmurHash3", 1, domain=MICROSOFT)
def murmur_hash(node: NodeSpec) -> Kernel:
    """The 32-bit hash of each element's bytes."""
    dtype = np.uint32 if node.attr("positive", 1) else np.int32
    seed = node.attr("seed", 0) & 0xFFFFFFFF

    def run(x: np.ndarray) -> np.ndarray:
        items = (utf8(item) if isinstance(item, str) else item.tobytes() for item in x.flat)
        hashes = np.array([murmur3_32(item, seed) for item in items], np.uint32)
        return hashes.view(dtype).reshape(x.shape)

    return Kernel(run)


@TABLE.operator("NGramRepeatBlock", 1, domain=MICROSOFT)
def ngram_repeat_block(node: NodeSpec) -> Kernel:
    """Scores of -inf for tokens that would complete an n-gram that the row has already."""
    size = node.attr("ngram_size")
    if size < 1:
        raise InvalidGraphError(f"{node} has ngram_size {size}; it must be at least 1")

    def run(ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
        y = scores.copy()
        for row, tokens in enumerate(ids.tolist()):
            if len(tokens) + 1 < size:
                continue
            prefix = tokens[len(tokens) - size + 1 :]
            banned = [
                tokens[start + size - 1]
                for start in range(len(tokens) - size + 1)
                if tokens[start : start + size - 1] == prefix
            ]
            y[row, checked_indices(node, np.array(banned, np.int64), y.shape[1])] = -np.inf
        return y

    return Kernel(run)


@TABLE.operator("BifurcationDetector", 1, domain=MICROSOFT)
def bifurcation_detector(node: NodeSpec) -> Kernel:
    """Predicted tokens as far as they are the source's, and where the source goes on after the tokens' end."""
    shortest, longest = node.attr("min_ngram_size", 1), node.attr("max_ngram_size", 3)

    def run(
        source: np.ndarray, current: np.ndarray, match: np.ndarray, predicted: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        src, tokens = integers(source), integers(current)
        if predicted is not None:
            guesses, start = integers(predicted), scalar(node, match, "prev_suffix_match_idx")
            follows = src[start:]
            if len(guesses) != len(follows) + 1:
                raise KernelError(
                    f"{node}: {len(guesses)} predictions for {len(follows)} source tokens; one more is needed"
                )
            same = next(
                (i for i, pair in enumerate(zip(guesses, follows, strict=False)) if pair[0] != pair[1]),
                len(follows),
            )
            tokens = tokens + guesses[: same + 1]
        return np.array(tokens, np.int64), np.array(_suffix_match(src, tokens, shortest, longest), np.int64)

    return Kernel(run)


def _suffix_match(source: list[int], tokens: list[int], shortest: int, longest: int) -> int:
    """Where the source goes on behind the only n-gram that ends the tokens; -1 where there is none, or more."""
    for size in range(shortest, min(longest, len(tokens)) + 1):
        suffix = tokens[len(tokens) - size :]
        places = [at for at in range(len(source) - size + 1) if source[at : at + size] == suffix]
        if not places:
            break
        if len(places) == 1:
            return places[0] + size
    return -1


@TABLE.operator("WordConvEmbedding", 1, domain=MICROSOFT)
def word_conv_embedding(node: NodeSpec) -> Kernel:
    """Words of character ids: a convolution over their embeddings, tanh, and the maximum over the word.

    ``embedding_size`` and ``char_embedding_size`` repeat what the shapes of the weights say.
    """

    def run(words: np.ndarray, weight: np.ndarray, bias: np.ndarray, table: np.ndarray) -> np.ndarray:
        if weight.shape[2:] != (node.attr("conv_window_size", 0) or weight.shape[2], table.shape[1]):
            raise KernelError(
                f"{node}: weights {weight.shape} do not fit conv_window_size {node.attr('conv_window_size')} and embeddings {table.shape}"
            )
        *leading, longest = words.shape
        filters, window = weight.shape[0], weight.shape[2]
        y = np.zeros((words.size // max(1, longest), filters), np.float32)
        kernel = weight.reshape(filters, -1)
        for row, word in enumerate(words.reshape(-1, longest)):
            length = int((np.cumsum(word <= 0) == 0).sum())
            if not length:
                continue
            ids = checked_indices(node, word[: max(length, window)], len(table))
            vectors = table[ids]
            steps = max(length - window + 1, 1)
            windows = np.stack([vectors[at : at + window].reshape(-1) for at in range(steps)])
            y[row] = np.tanh(windows @ kernel.T + bias).max(axis=0)
        return y.reshape(*leading, filters)

    return Kernel(run)
