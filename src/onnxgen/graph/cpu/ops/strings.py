"""Strings: StringConcat, StringSplit, StringNormalizer, RegexFullMatch, TfIdfVectorizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.memory import require_memory
from onnxgen.graph.cpu.patterns import compile_pattern, utf8
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

_LOCALES_WITH_OWN_CASE = ("tr", "az", "lt")
"""Languages whose upper and lower case Python's `str` methods do not know."""


def strings(items: Iterable[str], shape: tuple[int, ...]) -> np.ndarray:
    """An ``object`` array of strings."""
    array = np.empty(shape, object)
    array.reshape(-1)[:] = list(items)
    return array


@TABLE.operator("StringConcat", 20)
def string_concat(node: NodeSpec) -> Kernel:
    """Elementwise, with broadcasting."""

    def run(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(np.add(x, y), dtype=object)

    def into(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> None:
        np.add(x, y, out=z)

    return Kernel(run, into)


@TABLE.operator("StringSplit", 20)
def string_split(node: NodeSpec) -> Kernel:
    """Substrings on a new last axis, filled up with empty strings, and how many there are."""
    delimiter, maxsplit = node.attr("delimiter") or None, node.attr("maxsplit", -1)

    def run(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = [item.split(delimiter, maxsplit) for item in x.reshape(-1)]
        counts = [len(part) for part in parts]
        width = max(counts, default=0)
        padded = (item for part in parts for item in (*part, *[""] * (width - len(part))))
        return strings(padded, (*x.shape, width)), np.array(counts, np.int64).reshape(x.shape)

    return Kernel(run)


def _lower(text: str) -> str:
    """Characters one by one, as in ONNX Runtime: a sigma at the end is no other letter, no character becomes two."""
    return text.lower() if text.isascii() else "".join(char.lower()[0] for char in text)


def _upper(text: str) -> str:
    """Characters one by one, as in ONNX Runtime; those without a capital that is one character (as the sharp s) stay."""
    if text.isascii():
        return text.upper()
    forms = ((char, char.upper(), char.title()) for char in text)
    return "".join(next((form for form in (up, title) if len(form) == 1), char) for char, up, title in forms)


def _unknown_case(node: NodeSpec) -> str | None:
    language = node.attr("locale", "").replace("-", "_").split("_")[0].lower()
    if language in _LOCALES_WITH_OWN_CASE:
        return f"upper and lower case of locale {node.attr('locale')!r} are not known here"
    return None


@TABLE.operator("StringNormalizer", 10, why_not=_unknown_case)
def string_normalizer(node: NodeSpec) -> Kernel:
    """Stop words removed, case changed; one empty string where nothing is left."""
    stopwords: Sequence[str] = node.attr("stopwords", ())
    changes: dict[str, Callable[[str], str]] = {"NONE": str, "LOWER": _lower, "UPPER": _upper}
    action = node.attr("case_change_action", "NONE")
    if action not in changes:
        raise InvalidGraphError(f"{node}: case_change_action {action!r} is none of {', '.join(changes)}")
    change = changes[action]
    key: Callable[[str], str] = str if node.attr("is_case_sensitive", 0) else _lower
    stops = {key(word) for word in stopwords}

    def run(x: np.ndarray) -> np.ndarray:
        if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
            raise KernelError(f"{node}: needs shape [C] or [1, C], its input is of shape {x.shape}")
        kept = [change(word) for word in x.reshape(-1) if key(word) not in stops] or [""]
        return strings(kept, (*x.shape[:-1], len(kept)))

    return Kernel(run)


@TABLE.operator("RegexFullMatch", 20)
def regex_full_match(node: NodeSpec) -> Kernel:
    """Whether the pattern, in the syntax of RE2, matches each string as a whole."""
    matches = compile_pattern(node, node.attr("pattern", "")).fullmatch

    def run(x: np.ndarray) -> np.ndarray:
        return np.array([matches(utf8(item)) is not None for item in x.reshape(-1)], bool).reshape(x.shape)

    return Kernel(run)


@TABLE.operator("TfIdfVectorizer", 9)
def tf_idf_vectorizer(node: NodeSpec) -> Kernel:
    """Counts of known n-grams in each row, limited or weighted as ``mode`` says."""
    pool: Sequence[Any] = node.attr("pool_strings") or node.attr("pool_int64s") or ()
    coordinates: Sequence[int] = node.attr("ngram_indexes", ())
    shortest, longest = node.attr("min_gram_length"), node.attr("max_gram_length")
    skips, mode = node.attr("max_skip_count"), node.attr("mode")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise InvalidGraphError(f"{node}: mode {mode!r} is none of TF, IDF, TFIDF")
    if not 1 <= shortest <= longest or skips < 0 or min(coordinates, default=0) < 0:
        raise InvalidGraphError(
            f"{node}: n-grams of {shortest} to {longest} elements with {skips} skips, or with places below 0 in {list(coordinates)}"
        )
    width = max(coordinates, default=-1) + 1
    require_memory(node, (width,), np.dtype(np.float32))
    known = _pool(node, pool, node.attr("ngram_counts", ()), coordinates)
    given = node.attr("weights") or (1.0,) * len(coordinates)
    if len(given) != len(coordinates):
        raise InvalidGraphError(f"{node}: {len(given)} weights for {len(coordinates)} n-grams")
    weights = np.zeros(width, np.float32)
    weights[list(coordinates)] = given

    def counted(row: list[Any]) -> np.ndarray:
        counts = np.zeros(width, np.float32)
        for length in range(shortest, min(longest, len(row)) + 1):
            farthest = (len(row) - 1) // (length - 1) if length > 1 else 1
            for step in range(1, min(skips + 1, farthest) + 1):
                span = step * (length - 1) + 1
                for start in range(len(row) - span + 1):
                    place = known.get(tuple(row[start : start + span : step]))
                    if place is not None:
                        counts[place] += 1
        return counts

    def run(x: np.ndarray) -> np.ndarray:
        if x.ndim not in (1, 2):
            raise KernelError(f"{node}: needs shape [C] or [N, C], its input is of shape {x.shape}")
        rows = x.tolist() if x.ndim == 2 else [x.tolist()]
        counts = np.array([counted(row) for row in rows], np.float32).reshape(len(rows), width)
        if mode == "IDF":
            counts = np.minimum(counts, 1)
        if mode != "TF":
            counts = counts * weights
        return counts if x.ndim == 2 else counts[0]

    return Kernel(run)


def _pool(
    node: NodeSpec, pool: Sequence[Any], starts: Sequence[int], coordinates: Sequence[int]
) -> dict[tuple[Any, ...], int]:
    """Coordinates by n-gram; ``starts`` say where the 1-grams, the 2-grams, ... begin in the pool."""
    ngrams: list[tuple[Any, ...]] = []
    for length, (start, end) in enumerate(zip(starts, (*starts[1:], len(pool)), strict=True), start=1):
        ngrams += [tuple(pool[at : at + length]) for at in range(start, end, length)]
    if len(ngrams) != len(coordinates):
        raise InvalidGraphError(
            f"{node}: {len(ngrams)} n-grams in the pool, {len(coordinates)} ngram_indexes"
        )
    return dict(zip(ngrams, coordinates, strict=True))
