"""Probabilities of a prompt's tokens are described when they are looked at, and are a tuple to whoever looks."""

import copy
import pickle

import pytest

from onnxgen.engine.sampling.logprobs import TokenLogprobs
from onnxgen.facade.token_logprobs import PromptLogprobs
from onnxgen.preprocess.tokenizer import Tokenizer
from tiny_model_folder import write_model_folder


@pytest.fixture
def tokenizer(tmp_path):
    return Tokenizer.from_folder(write_model_folder(tmp_path))


def told(tokenizer, text="the 😀 other"):
    ids = tokenizer.encode(text)
    found = [None, *(TokenLogprobs(i, -0.5, 1, ((i, -0.5), (ids[0], -1.0))) for i in ids[1:])]
    return ids, PromptLogprobs(found, ids, tokenizer)


def test_texts_and_places_are_those_of_the_prompt(tokenizer):
    ids, found = told(tokenizer)
    assert found[0] is None
    assert [one.token_id for one in found[1:]] == ids[1:]
    assert (
        b"".join(one.token_bytes for one in found[1:])
        == tokenizer.decode(ids).encode()[len(tokenizer.token_bytes(ids[0])) :]
    )
    assert found[-1].text_offset == len(tokenizer.decode(ids[:-1]))
    assert [len(one.top) for one in found if one is not None] == [2] * (len(ids) - 1)


def test_nothing_is_described_before_somebody_looks():
    found = PromptLogprobs([None] * 9, range(9), None)
    assert len(found) == 9
    with pytest.raises(Exception, match="NoneType"):
        list(found)


def test_it_is_a_tuple_to_whoever_looks(tokenizer):
    _, found = told(tokenizer)
    plain = tuple(found)
    assert found == plain
    assert plain == found
    assert found == told(tokenizer)[1]
    assert found != plain[1:]
    assert found != list(plain)
    assert (hash(found), repr(found), found[1:3]) == (hash(plain), repr(plain), plain[1:3])
    assert pickle.loads(pickle.dumps(found)) == copy.deepcopy(found) == plain
