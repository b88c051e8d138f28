"""Did you mean?"""

from onnxgen.foundations.suggest import did_you_mean


def test_the_nearest_word_is_named():
    assert did_you_mean("top_kk", ["top_p", "top_k", "seed"]) == "; did you mean 'top_k'?"


def test_nothing_near_says_nothing():
    assert did_you_mean("zebra", ["top_p", "top_k"]) == ""
    assert did_you_mean("x", []) == ""


def test_any_iterable_will_do():
    assert did_you_mean("threds", (word for word in ["threads"])) == "; did you mean 'threads'?"
