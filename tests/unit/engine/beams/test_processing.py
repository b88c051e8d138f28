import numpy as np
import pytest

from onnxgen.engine.beams.candidates import best_candidates
from onnxgen.engine.beams.options import ONNXRUNTIME_GENAI, TRANSFORMERS
from onnxgen.engine.beams.processing import BeamProcessing
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.errors import BackendError, LogitsProcessorError, OptionError, TokenIdError

VOCAB = 7
RULES = pytest.mark.parametrize("rules", [TRANSFORMERS, ONNXRUNTIME_GENAI], ids=["logprobs", "logits"])


def rank(row, rules, *, sampling=None, processors=()):
    processing = BeamProcessing(
        sampling or SamplingOptions(), rules, vocab_size=VOCAB, eos_ids=[0], processors=processors
    )
    logits = np.array([row], np.float32)
    ranked = processing.rank(logits, histories=[np.array([2, 4])], num_new_tokens=1, taken={})
    np.testing.assert_array_equal(logits, np.array([row], np.float32))
    return ranked


def write(token, value):
    def processor(history, row):
        row[token] = value

    return processor


@RULES
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_broken_logits_are_the_models_fault_whatever_else_is_done(rules, value):
    row = [0, 1, 2, value, 4, 5, 6]
    for more in ({}, {"sampling": SamplingOptions(repetition_penalty=1.5)}, {"processors": [write(1, 0.0)]}):
        with pytest.raises(BackendError, match="numerically broken"):
            rank(row, rules, **more)


@RULES
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_a_processor_writes_is_the_processors_fault(rules, value):
    with pytest.raises(LogitsProcessorError, match="wrote NaN or infinity"):
        rank(range(VOCAB), rules, processors=[write(3, value)])


def test_a_penalty_without_bounds_is_the_options_fault():
    with pytest.raises(OptionError, match="penalty is too large"):
        rank([1e10] * VOCAB, ONNXRUNTIME_GENAI, sampling=SamplingOptions(repetition_penalty=1e-37))


@RULES
@pytest.mark.parametrize("sampling", [SamplingOptions(), SamplingOptions(repetition_penalty=2.0)])
def test_a_beam_of_which_nothing_is_allowed_has_no_continuation(rules, sampling):
    nothing = [-np.inf] * (VOCAB - 1) + [np.finfo(np.float32).min]
    assert best_candidates(rank(nothing, rules, sampling=sampling), [0.0], 3) == []


def test_options_may_name_no_padding_of_the_vocabulary():
    sampling = SamplingOptions(logit_bias={5: 1.0})
    with pytest.raises(TokenIdError, match=r"token id 5 of logit_bias is outside \[0, 5\)"):
        BeamProcessing(sampling, TRANSFORMERS, vocab_size=VOCAB, eos_ids=[0], num_tokens=5)
