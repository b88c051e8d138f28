import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, decoders

from decoder_kinds import BYTES, make_tokenizer
from onnxgen.preprocess.byte_level_decoder import simplified_decoder
from onnxgen.preprocess.detokenizer import IncrementalDetokenizer

# as transformers writes it for a byte-level tokenizer that comes from a GGUF file
CONVERTED = decoders.Sequence(
    [decoders.ByteFallback(), decoders.Fuse(), decoders.Replace("▁", " "), decoders.ByteLevel()]
)
WORDS = ["hello", "Ġworld", "ĠðŁĺ"]
OUTSIDE = "▁<PRE>"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return make_tokenizer(
        tmp_path_factory.mktemp("t"), [*BYTES, *WORDS], CONVERTED, special=("<|end|>", OUTSIDE)
    )


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_pieces_come_as_they_are_generated_and_add_up(tokenizer, data):
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size + 1), max_size=30))
    detokenizer = IncrementalDetokenizer(tokenizer)
    pieces = [detokenizer.push(i) for i in ids] + [detokenizer.flush()]
    assert "".join(pieces) == tokenizer.decode(ids)


def test_a_word_comes_before_the_next_one(tokenizer):
    detokenizer = IncrementalDetokenizer(tokenizer)
    ids = [tokenizer.token_to_id(word) for word in ("hello", "Ġworld", OUTSIDE, "hello")]
    assert [detokenizer.push(i) for i in ids] == ["hello", " world", "", "hello"]


@pytest.mark.parametrize("all_shown", [True, False])
def test_a_token_that_changes_how_all_is_read_makes_text_wait(tokenizer, all_shown):
    outside = tokenizer.token_to_id(OUTSIDE)
    options = {"skip_special_tokens": False} if all_shown else {"shown_ids": frozenset([outside])}
    detokenizer = IncrementalDetokenizer(tokenizer, **options)
    ids = [tokenizer.token_to_id("Ġworld"), outside]
    pieces = [detokenizer.push(i) for i in ids] + [detokenizer.flush()]
    assert "".join(pieces) == tokenizer.decode(ids, skip_special_tokens=False) == "Ġworld <PRE>"
    assert pieces[0] == ""


@pytest.mark.parametrize(
    ("steps", "tokens", "simple"),
    [
        ([decoders.Fuse(), decoders.ByteLevel()], BYTES, True),
        ([decoders.Fuse(), decoders.ByteLevel()], [*BYTES, "a b"], False),
        ([decoders.Fuse(), decoders.ByteLevel()], [*BYTES, "<0x41>"], True),
        ([decoders.ByteFallback(), decoders.ByteLevel()], [*BYTES, "<0x41>"], False),
        ([decoders.Replace("ab", "c"), decoders.Fuse(), decoders.ByteLevel()], BYTES, False),
        ([decoders.Replace("▁a", "c"), decoders.Fuse(), decoders.ByteLevel()], BYTES, True),
        ([decoders.Replace(Regex("▁"), " "), decoders.Fuse(), decoders.ByteLevel()], BYTES, False),
        ([decoders.Strip(" ", 1, 0), decoders.Fuse(), decoders.ByteLevel()], BYTES, False),
        ([decoders.Fuse(), decoders.ByteLevel(), decoders.Fuse()], BYTES, False),
    ],
)
def test_what_is_one_step_depends_on_the_vocabulary(tmp_path, steps, tokens, simple):
    tokenizer = make_tokenizer(tmp_path, tokens, decoders.Sequence(steps))
    found = tokenizer.decoder_spec_without(frozenset())
    assert found == ({"type": "ByteLevel"} if simple else tokenizer.decoder_spec)


def test_other_decoders_are_left_alone_without_a_look_at_the_vocabulary():
    def never():
        raise AssertionError("asked for the vocabulary")

    for spec in (None, {"type": "ByteLevel"}, {"type": "Sequence", "decoders": [{"type": "Fuse"}]}):
        assert simplified_decoder(spec, never) == spec
    assert simplified_decoder({"type": "Sequence", "decoders": []}, never) == {
        "type": "Sequence",
        "decoders": [],
    }
