from __future__ import annotations

from dataclasses import replace

import pytest

import tiny_model_folder
from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.speculation.base import Wanted
from onnxgen.engine.speculation.draft_options import DraftModelOptions
from onnxgen.engine.speculation.of_models import check_draft_folder, draft_proposer
from onnxgen.errors import CapabilityError, ConfigError
from onnxgen.metadata.load import load_model_spec
from onnxgen.preprocess.vocabulary import UnusedIds
from sampled_sequences import SampledSequence
from tiny_tokenizer import EOS, VOCAB_SIZE

SMALL = DraftModelOptions(cache_tokens=1024, min_confidence=0.0)


@pytest.fixture
def spec(tmp_path):
    return load_model_spec(tiny_model_folder.write_model_folder(tmp_path / "model"))


class NeedsMore(FakeBackend):
    """A backend of a graph with an input that steps do not fill."""

    @property
    def capabilities(self):
        return replace(super().capabilities, required_inputs=frozenset({"speaker"}))


def _draft(proposer, length, count=4):
    row = SampledSequence(SamplingOptions(seed=0), [5] * length, length)
    return proposer.propose([Wanted(key=length, history=row.history, num_tokens=count, row=row)])[0]


def test_a_proposer_knows_ends_and_rows_that_are_no_token(spec):
    backend = FakeBackend(VOCAB_SIZE, continuations={(5, 5): (7, EOS, 9)})
    unused = UnusedIds(num_tokens=200, holes=(7,))
    plain = draft_proposer(spec, spec.decoder, backend, options=SMALL)
    assert _draft(plain, 2).tokens == (7, EOS)
    plain.close()
    careful = draft_proposer(spec, spec.decoder, backend, unused=unused, options=SMALL)
    tokens = _draft(careful, 2).tokens
    assert 7 not in tokens and max(tokens) < 200
    careful.close()


def test_sequences_beyond_the_rotary_switch_get_no_drafts(spec):
    backend = FakeBackend(VOCAB_SIZE)
    proposer = draft_proposer(spec, replace(spec.decoder, rope_switch_length=10), backend, options=SMALL)
    assert len(_draft(proposer, 9).tokens) == 2  # the second one is not computed
    assert _draft(proposer, 11) is None
    proposer.close()


def test_a_draft_model_that_reads_what_nobody_gives_is_refused(spec):
    with pytest.raises(CapabilityError, match="it reads speaker"):
        draft_proposer(spec, spec.decoder, NeedsMore(VOCAB_SIZE), options=SMALL)


def test_folders_are_compared_by_their_tokenizers_and_ends(spec, tmp_path):
    other = load_model_spec(tiny_model_folder.write_model_folder(tmp_path / "other"))
    check_draft_folder(spec, other)
    ends = replace(other, tokens=replace(other.tokens, eos=(1,)))
    with pytest.raises(ConfigError, match="end answers with different tokens"):
        check_draft_folder(spec, ends)
