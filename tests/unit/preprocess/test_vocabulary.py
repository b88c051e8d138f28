import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken as BackendToken
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers

from decoder_kinds import ADDED, FALLBACK, HOLES, KINDS, LLAMA, PIECES, make_tokenizer
from onnxgen.errors import TokenIdError
from onnxgen.preprocess.byte_alphabet import CHARACTER_OF_BYTE
from onnxgen.preprocess.tokenizer import Tokenizer
from onnxgen.preprocess.vocabulary import AddedToken
from tiny_tokenizer import BOS, EOS, PAD, VOCAB_SIZE, write_tokenizer

# Replacements that reach over tokens, or words that depend on the token before, have no bytes of their own.
BY_TOKEN = [
    kind
    for kind in KINDS
    if kind not in ("fuse_then_strip", "regex", "fused_regex", "byte_level_then_replace", "ctc", "bpe_suffix")
]


@pytest.fixture(scope="module", params=BY_TOKEN)
def tokenizer(request, tmp_path_factory):
    tokens, decoder = KINDS[request.param]
    return make_tokenizer(tmp_path_factory.mktemp("t"), tokens, decoder, added=ADDED)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_bytes_of_tokens_add_up_to_the_text(tokenizer, data):
    plain = [i for i in range(tokenizer.vocab_size + HOLES) if i not in tokenizer.special_ids]
    ids = data.draw(st.lists(st.sampled_from(plain), max_size=30))
    whole = b"".join(map(tokenizer.token_bytes, ids))
    # A token before them, for what is stripped from the beginning of a text.
    start = tokenizer.token_to_id("<think>")
    text = tokenizer.decode([start, *ids]).removeprefix(tokenizer.decode([start]))
    if "�" not in text:
        assert whole.decode() == text


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=20))
def test_a_third_of_a_character_is_exact(tmp_path_factory, text):
    for name, spell in (("byte_level", CHARACTER_OF_BYTE.__getitem__), ("llama", FALLBACK.__getitem__)):
        tokenizer = cached(tmp_path_factory, name)
        ids = [tokenizer.token_to_id(spell(byte)) for byte in text.encode()]
        assert [tokenizer.token_bytes(i) for i in ids] == [bytes((byte,)) for byte in text.encode()]


_CACHE = {}


def cached(factory, kind):
    if kind not in _CACHE:
        _CACHE[kind] = make_tokenizer(factory.mktemp(kind), *KINDS[kind])
    return _CACHE[kind]


def test_every_id_has_bytes_and_the_table_is_the_same(tokenizer):
    rows = tokenizer.vocab_size + HOLES
    table = tokenizer.token_bytes_table()
    assert len(table) == rows
    assert table is tokenizer.token_bytes_table()
    for i in range(rows):
        assert table[i] == tokenizer.token_bytes(i)
        assert tokenizer.token_text(i) == table[i].decode(errors="replace")
    assert table[-HOLES:] == (b"",) * HOLES
    for bad in (-1, rows, 2**40):
        with pytest.raises(TokenIdError, match=str(bad)):
            tokenizer.token_bytes(bad)
        with pytest.raises(TokenIdError, match=str(bad)):
            tokenizer.token_text(bad)


def test_special_tokens_have_their_own_text(tokenizer):
    assert tokenizer.token_text(tokenizer.token_to_id("<|end|>")) == "<|end|>"


def test_a_word_begins_with_its_space(tmp_path):
    tokenizer = make_tokenizer(tmp_path, ["▁Hello", "▁world", "<0xE4>"], LLAMA)
    assert tokenizer.decode([0, 1]) == "Hello world"
    assert [tokenizer.token_text(i) for i in (0, 1, 2)] == [" Hello", " world", "�"]


def test_pieces_keep_what_the_decoder_makes_of_them(tmp_path):
    tokenizer = make_tokenizer(tmp_path, PIECES, decoders.WordPiece())
    assert tokenizer.token_bytes(PIECES.index("##ing")) == b"ing"
    assert tokenizer.token_bytes(PIECES.index("do")) == b" do"
    assert tokenizer.token_bytes(PIECES.index(".")) == b"."


def test_padding_and_holes_are_no_tokens(tmp_path):
    write_tokenizer(tmp_path)
    path = tmp_path / "tokenizer.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    vocab = document["model"]["vocab"]
    vocab["on"], vocab["Ġ"] = VOCAB_SIZE + 3, vocab["Ġ"]
    holes = sorted(set(range(VOCAB_SIZE + 3)) - set(vocab.values()))
    path.write_text(json.dumps(document), encoding="utf-8")
    tokenizer = Tokenizer.from_folder(tmp_path, model_vocab_size=VOCAB_SIZE + 9)
    assert tokenizer.unused_ids(VOCAB_SIZE + 9) == (VOCAB_SIZE + 4, tuple(holes))
    num_tokens, found = tokenizer.unused_ids(VOCAB_SIZE)
    assert (num_tokens, found) == (VOCAB_SIZE, tuple(i for i in holes if i < VOCAB_SIZE))
    assert all(tokenizer.token_bytes(i) == b"" for i in holes)


def test_a_full_vocabulary_has_no_unused_ids(tmp_path):
    write_tokenizer(tmp_path)
    tokenizer = Tokenizer.from_folder(tmp_path)
    assert tokenizer.unused_ids(VOCAB_SIZE) == (VOCAB_SIZE, ())
    assert tokenizer.unused_ids(5) == (5, ())


def test_added_tokens_are_listed_with_their_flags(tmp_path):
    write_tokenizer(tmp_path)
    tokenizer = Tokenizer.from_folder(tmp_path)
    assert [token.id for token in tokenizer.added_tokens] == [PAD, BOS, EOS]
    assert tokenizer.added_tokens[EOS] == AddedToken(
        EOS, "<|eos|>", special=True, lstrip=False, rstrip=False, single_word=False, normalized=False
    )


def words(tmp_path, **flags):
    """A tokenizer of words between blanks with lower-casing, and one added token, ``<t>``."""
    names = ["<unk>", "a", "b", "x<t>", "<t>y", "x<t>y", "<", "t", ">", "x", "y"]
    backend = Backend(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Split(" ", "isolated")
    token = BackendToken("<t>", **{"normalized": False, **flags})
    backend.add_tokens([token])
    backend.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.from_folder(tmp_path)
    (added,) = tokenizer.added_tokens
    assert all(getattr(added, name) == value for name, value in flags.items())
    return tokenizer, added.id


def test_special_is_skipped_in_decoding_and_not_found_in_plain_text(tmp_path):
    tokenizer, token = words(tmp_path, special=True)
    assert tokenizer.encode("a<t>b") == [1, token, 2]
    assert token not in tokenizer.encode("a<t>b", parse_special=False)
    assert tokenizer.decode([1, token]) == "a"
    assert tokenizer.decode([1, token], skip_special_tokens=False) == "a <t>"
    tokenizer, token = words(tmp_path, special=False)
    assert tokenizer.encode("a<t>b", parse_special=False) == [1, token, 2]
    assert tokenizer.decode([1, token]) == "a <t>"


@pytest.mark.parametrize(("flag", "text"), [("lstrip", "a  <t>b"), ("rstrip", "a<t>  b")])
def test_blanks_beside_a_token_may_belong_to_it(tmp_path, flag, text):
    tokenizer, token = words(tmp_path, **{flag: True})
    assert tokenizer.encode(text) == [1, token, 2]
    tokenizer, token = words(tmp_path, **{flag: False})
    assert len(tokenizer.encode(text)) > 3


def test_a_single_word_touches_no_letters(tmp_path):
    tokenizer, token = words(tmp_path, single_word=True)
    assert tokenizer.encode("x<t>y") == [5]
    assert tokenizer.encode("a <t> b")[2] == token
    tokenizer, token = words(tmp_path, single_word=False)
    assert tokenizer.encode("x<t>y") == [9, token, 10]


def test_a_normalized_token_is_found_in_the_normalized_text(tmp_path):
    tokenizer, token = words(tmp_path, normalized=True)
    assert tokenizer.encode("a<T>b") == [1, token, 2]
    tokenizer, token = words(tmp_path, normalized=False)
    assert token not in tokenizer.encode("a<T>b")
