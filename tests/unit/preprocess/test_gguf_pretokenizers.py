import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from onnxgen.preprocess.byte_alphabet import BYTE_OF_CHARACTER
from onnxgen.preprocess.gguf_pretokenizers import PRE_TOKENIZERS

SAMPLE = "It's IT'S a12345 fooBar\n\n  x!\n"
# What the published rules make of the sample, worked out by hand from their regular expressions.
EXPECTED = {
    "gpt-2": ["It", "'s", " IT", "'", "S", " a", "12345", " fooBar", "\n\n ", " x", "!", "\n"],
    "smollm": ["It", "'s", " IT", "'", "S", " a", "1", "2", "3", "4", "5", " fooBar", "\n\n ", " x", "!", "\n"],
    "llama-bpe": ["It", "'s", " IT", "'S", " a", "123", "45", " fooBar", "\n\n", " ", " x", "!\n"],
    "qwen2": ["It", "'s", " IT", "'S", " a", "1", "2", "3", "4", "5", " fooBar", "\n\n", " ", " x", "!\n"],
    "gpt-4o": ["It's", " IT'S", " a", "123", "45", " foo", "Bar", "\n\n", " ", " x", "!\n"],
    "tekken": ["It", "'s", " IT", "'S", " a", "1", "2", "3", "4", "5", " foo", "Bar", "\n\n", " ", " x", "!\n"],
    "deepseek-v3": ["It", "'s", " IT", "'S", " a", "123", "45", " fooBar", "\n\n", " ", " x", "!\n"],
    "deepseek-coder": ["It", "'", "s", " IT", "'", "S", " a", "1", "2", "3", "4", "5", " fooBar", "\n", "\n", " ", " x", "!", "\n"],
    "falcon": ["It", "'", "s", " IT", "'", "S", " a", "123", "45", " fooBar", "\n\n ", " x", "!", "\n"],
    "default": ["It", "'", "s", " IT", "'", "S", " a", "123", "45", " fooBar", "\n\n ", " x", "!", "\n"],
    "bloom": ["It's", " IT'S", " a12345", " fooBar", "\n\n ", " x", "!\n"],
}  # fmt: skip


def split(name, text):
    steps = [dict(step) for step in PRE_TOKENIZERS[name].steps]
    splitter = pre_tokenizers.Sequence([])
    splitter.__setstate__(json.dumps({"type": "Sequence", "pretokenizers": steps}).encode())
    return [bytes(BYTE_OF_CHARACTER[c] for c in piece) for piece, _ in splitter.pre_tokenize_str(text)]


@pytest.mark.parametrize("name", EXPECTED)
def test_words_of_a_sample(name):
    assert [piece.decode() for piece in split(name, SAMPLE)] == EXPECTED[name]


@settings(deadline=None, max_examples=30)
@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20))
def test_no_rule_loses_text(text):
    for name in PRE_TOKENIZERS:
        assert b"".join(split(name, text)) == text.encode(), name


def test_chinese_numbers_and_marks():
    assert [p.decode() for p in split("deepseek-v3", "a日本x١٢٣٤")] == ["a", "日本", "x", "١٢٣", "٤"]
    assert [p.decode() for p in split("qwen35", "ते x")] == ["ते", " x"]
    assert [p.decode() for p in split("qwen2", "ते x")] == ["त", "े", " x"]
