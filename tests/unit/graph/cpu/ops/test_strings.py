from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu, run_ort, run_reference
from onnxgen.errors import KernelError
from onnxgen.graph.cpu.provider import CpuProvider
from onnxgen.graph.ep.provider import Decline

WORDS = ["one", "Two", "three", "TWO", "ünï", "", "four five"]


def words(*shape):
    rng = np.random.default_rng()
    return np.array(rng.choice(WORDS, shape), object).reshape(shape)


@pytest.mark.parametrize("shapes", [((2, 3), (3,)), ((), ()), ((0, 2), (1, 2)), ((4, 1), (1, 5))])
def test_concatenation_broadcasts(shapes):
    x, y = (words(*shape) for shape in shapes)
    assert_same(run_cpu("StringConcat", x, y), run_ort("StringConcat", x, y, opset=20))


@pytest.mark.parametrize(
    "options", [{}, {"delimiter": "e"}, {"delimiter": ""}, {"maxsplit": 1, "delimiter": "o"}]
)
@pytest.mark.parametrize("shape", [(7,), (2, 3), (0,)])
def test_split_strings_are_filled_up(options, shape):
    x = words(*shape)
    assert_same(
        run_cpu("StringSplit", x, outputs=2, **options), run_reference("StringSplit", x, outputs=2, **options)
    )


@pytest.mark.parametrize(
    ("case", "word", "changed"),
    [
        ("LOWER", "ΣΑΣ", "σασ"),
        ("LOWER", "\u0130Ü", "iü"),
        ("UPPER", "straße", "STRAßE"),
        ("UPPER", "\u1fb3\ufb01", "\u1fbc\ufb01"),
    ],
)
def test_case_changes_character_by_character(case, word, changed):
    options = {"case_change_action": case, "is_case_sensitive": 1}
    assert run_cpu("StringNormalizer", np.array([word], object), **options).tolist() == [changed]


@pytest.mark.parametrize("case", ["NONE", "LOWER", "UPPER"])
@pytest.mark.parametrize("sensitive", [0, 1])
@pytest.mark.parametrize("stopwords", [["two"], ["Two", "one"], WORDS])
def test_stop_words_go_and_case_changes(case, sensitive, stopwords):
    options = {
        "case_change_action": case,
        "is_case_sensitive": sensitive,
        "stopwords": stopwords,
        "locale": "C",
    }
    for shape in ((5,), (1, 4)):
        x = words(*shape)
        x[x == "ünï"] = "uni"  # the locale of this machine decides what the runtime makes of it
        assert_same(
            run_cpu("StringNormalizer", x, **options), run_ort("StringNormalizer", x, opset=10, **options)
        )


def test_a_locale_with_its_own_case_is_declined():
    reason = CpuProvider().claim(node_spec("StringNormalizer", words(3), locale="tr_TR"))
    assert isinstance(reason, Decline)
    assert "tr_TR" in reason.reason


def test_a_matrix_of_words_cannot_be_normalized():
    with pytest.raises(KernelError, match=r"\[C\]"):
        kernel_of(node_spec("StringNormalizer", words(2, 2))).run(words(2, 2))


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("shape", [(30,), (3, 20), (2, 1)])
@pytest.mark.parametrize("strings", [False, True])
def test_ngrams_are_counted_as_the_runtime_counts(mode, shape, strings):
    rng = np.random.default_rng()
    pool = [0, 1, 2, 3, 0, 1, 2, 2, 1, 3, 0, 1, 2, 3, 3, 3]  # four 1-grams, three 2-grams, two 3-grams
    x = rng.integers(0, 5, shape)
    options = {
        "mode": mode,
        "min_gram_length": int(rng.integers(1, 3)),
        "max_gram_length": 3,
        "max_skip_count": int(rng.integers(0, 4)),
        "ngram_counts": [0, 4, 10],
        "ngram_indexes": rng.permutation(9).tolist(),
        "weights": rng.random(9).astype(np.float32).tolist(),
    }
    if strings:
        x, options["pool_strings"] = x.astype(str).astype(object), [str(item) for item in pool]
    else:
        options["pool_int64s"] = pool
    assert_same(run_cpu("TfIdfVectorizer", x, **options), run_ort("TfIdfVectorizer", x, opset=9, **options))
