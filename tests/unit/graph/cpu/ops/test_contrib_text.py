from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import InvalidGraphError, KernelError

MS = "com.microsoft"
LINES = np.array(["Hello World", "I love computer science !", "", "a,b; c", "ünï cödé  x"], object)


def seeded():
    seed = int(np.random.default_rng().integers(2**31))
    print("seed", seed)
    return np.random.default_rng(seed)


def compare(op_type, *inputs, **options):
    got, want = (run(op_type, *inputs, domain=MS, **options) for run in (run_cpu, run_ort))
    assert_same(got, want)


@pytest.mark.parametrize(
    "how",
    [
        *(
            {"separators": [" "]},
            {"separators": [",", " ", ";"]},
            {"separators": [r"[,;]\s*"]},
            {"separators": [""]},
        ),
        *({"tokenexp": "."}, {"tokenexp": "[a-z]+"}, {"tokenexp": r"\w+|!"}, {"tokenexp": "l|ll|o*"}),
        *({"separators": ["l|lo"]}, {"tokenexp": r"\p{Latin}+"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("mark", [0, 1])
def test_tokens_are_the_runtimes(how, mark):
    by_character = how.get("tokenexp") == "." or how.get("separators") == [""]
    for shortest in (1,) if by_character else (1, 2):
        options = {"mark": mark, "mincharnum": shortest, "pad_value": "#", **how}
        compare("Tokenizer", LINES, **options)
        compare("Tokenizer", LINES[:4].reshape(2, 2), **options)


def test_no_text_has_no_tokens():
    options = {"mark": 0, "mincharnum": 1, "pad_value": "#", "separators": [" "]}
    compare("Tokenizer", np.array([], object), **options)
    compare("Tokenizer", np.array([" ", " "], object), **options)
    with pytest.raises(InvalidGraphError, match="one of separators and tokenexp"):
        kernel_of(node_spec("Tokenizer", LINES, domain=MS, mark=0, mincharnum=1, pad_value="#"))


def test_separators_that_match_nothing_separate_nothing():
    options = {"mark": 0, "mincharnum": 1, "pad_value": "#", "domain": MS}
    got = run_cpu("Tokenizer", np.array(["ab cd", "x"], object), separators=[r"\b", " *"], **options)
    assert got.tolist() == [["ab", "cd"], ["x", "#"]]


def test_texts_that_are_not_utf8_are_cut_too():
    options = {"mark": 0, "mincharnum": 1, "pad_value": "#", "domain": MS}
    text = np.array(["a\udcff b"], object)
    assert run_cpu("Tokenizer", text, separators=[" "], **options).tolist() == [["a\udcff", "b"]]
    assert run_cpu("Tokenizer", text, tokenexp="[a-z]+", **options).tolist() == [["a", "b"]]


def test_a_pattern_that_is_none_is_an_error():
    options = {"mark": 0, "mincharnum": 1, "pad_value": "#", "domain": MS}
    for how in ({"separators": [" ", "(a"]}, {"tokenexp": "(a"}):
        with pytest.raises(InvalidGraphError, match=r"pattern '\(a' is none of RE2: missing"):
            kernel_of(node_spec("Tokenizer", LINES, **options, **how))


@pytest.mark.parametrize("positive", [0, 1])
def test_hashes_of_every_element_type(positive):
    rng = seeded()
    whole = np.arange(5) - 2
    arrays = [LINES, whole.astype(np.int32), whole.astype(np.uint64), whole]
    for x in (*arrays, rng.random(3).astype(np.float32), rng.random(3)):
        compare("MurmurHash3", x, positive=positive, seed=7)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_repeated_ngrams_are_forbidden(size):
    rng = seeded()
    compare(
        "NGramRepeatBlock", rng.integers(0, 3, (3, 7)), rng.random((3, 5)).astype(np.float32), ngram_size=size
    )


def test_tokens_outside_of_the_scores_are_errors():
    inputs = np.array([[7, 7, 7]]), np.zeros((1, 5), np.float32)
    with pytest.raises(KernelError, match="index 7 is outside"):
        kernel_of(node_spec("NGramRepeatBlock", *inputs, domain=MS, ngram_size=2)).run(*inputs)


def test_predictions_are_kept_while_they_follow_the_source():
    rng = seeded()
    for _ in range(10):
        source, current, start = rng.integers(0, 4, 8), rng.integers(0, 4, 4), int(rng.integers(0, 8))
        predicted = np.append(np.where(rng.random(8 - start) < 0.8, source[start:], 9), 3)
        compare("BifurcationDetector", source, current, np.array(start), predicted, outputs=2)
        compare("BifurcationDetector", source, current, np.array(start), outputs=2)
        sizes = {"min_ngram_size": 2, "max_ngram_size": 4}
        compare("BifurcationDetector", source, current, np.array(start), predicted, outputs=2, **sizes)


def test_words_are_embedded_by_their_characters():
    rng = seeded()
    words = np.array([[3, 4, 5, 0, 0], [2, 1, 0, 0, 0], [1, 2, 3, 4, 5]], np.int32)
    weight, bias, table = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((6, 1, 2, 4), 6, (8, 4))
    )
    got, want = (
        run("WordConvEmbedding", words, weight, bias, table, domain=MS) for run in (run_cpu, run_ort)
    )
    assert_same(got, want, rtol=1e-4, atol=1e-5)
