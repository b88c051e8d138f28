"""Texts that cannot fit are refused before all of them is tokenized, and no others are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tiny_tokenizer
from onnxgen.errors import ContextLengthError
from onnxgen.preprocess import long_texts
from onnxgen.preprocess.long_texts import check_length
from onnxgen.preprocess.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    tiny_tokenizer.write_tokenizer(folder)
    return Tokenizer.from_folder(folder)


class Counting:
    """A tokenizer that knows how much of a text it was shown."""

    def __init__(self, tokenizer):
        self._tokenizer, self.num_characters = tokenizer, 0

    def encode(self, text):
        self.num_characters += len(text)
        return self._tokenizer.encode(text)


@pytest.mark.parametrize("text", ["é" * 10**6, "the " * 10**6, "the" * 100_000 + "x" * 10**6])
def test_little_of_a_text_is_tokenized(tokenizer, text):
    counting = Counting(tokenizer)
    with pytest.raises(ContextLengthError, match=f"{len(text)} characters has far more than the 1000 tokens"):
        check_length(text, 1000, tokenizer=counting)
    assert counting.num_characters < 200_000


def test_short_texts_are_left_to_whoever_counts_them(tokenizer):
    counting = Counting(tokenizer)
    check_length("x" * 65536, 1000, tokenizer=counting)
    assert counting.num_characters == 0


@given(text=st.text(st.sampled_from("the é\ud800<|bos|>😀"), max_size=300), room=st.integers(1, 200))
def test_what_fits_is_never_refused(tokenizer, text, room):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_texts, "_SHORT", 40)
        try:
            check_length(text, room, tokenizer=tokenizer)
        except ContextLengthError:
            assert len(tokenizer.encode(text)) > room
        else:
            assert len(tokenizer.encode(text)) <= max(40 * 4, 4 * 2 * room)  # é is two bytes, 😀 is four
