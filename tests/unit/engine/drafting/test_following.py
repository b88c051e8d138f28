"""What is learned of drafts that were not computed, or not all of them, from the tokens that come."""

from types import SimpleNamespace

import numpy as np
import pytest

from onnxgen.engine.drafting.following import Following
from onnxgen.engine.speculation.acceptance_rates import AcceptanceRates
from onnxgen.engine.speculation.base import Draft
from onnxgen.engine.speculation.options import Speculation

TEXT = [7, 8, 9, 10, 11, 12, 13, 14]


def followed(known):
    sample = SimpleNamespace(history=np.array(TEXT[:known], np.int64), num_tokens=known)
    return sample, Following(sample, Speculation(), None, others=AcceptanceRates(memory=256))


def grow(sample, known):
    sample.history, sample.num_tokens = np.array(TEXT[:known], np.int64), known


@pytest.mark.parametrize("computed", [0, 1, 2])
def test_the_rest_of_a_draft_that_comes_true_makes_longer_drafts_likelier(computed):
    sample, following = followed(3)
    before = following.rates.chances(0, 4)
    following.watch(Draft(tuple(TEXT[3:7])), computed=computed)
    grow(sample, 5)
    following.look_back()
    assert following.rates.chances(0, 4) == before, "it is not known yet"
    grow(sample, 8)
    following.look_back()
    after = following.rates.chances(0, 4)
    assert after[3] / after[0] > before[3] / before[0]
    assert (after[0] > before[0]) == (computed == 0), (
        "the first token of a computed draft is counted elsewhere"
    )


def test_the_rest_of_a_draft_that_does_not_come_makes_them_less_likely():
    sample, following = followed(3)
    before = following.rates.chances(0, 2)
    following.watch(Draft((TEXT[3], 50, 51)), computed=1)
    grow(sample, 6)
    following.look_back()
    after = following.rates.chances(0, 2)
    assert after[1] / after[0] < before[1] / before[0]


def test_a_draft_that_was_wrong_where_it_was_computed_says_nothing_more():
    sample, following = followed(3)
    before = following.rates.chances(0, 4)
    following.watch(Draft((50, TEXT[4], TEXT[5])), computed=2)
    grow(sample, 7)
    following.look_back()
    assert following.rates.chances(0, 4) == before
