import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders

from decoder_kinds import ADDED, BYTES, FALLBACK, GEMMA, HOLES, KINDS, LLAMA, make_tokenizer
from onnxgen.errors import StateError, TokenIdError
from onnxgen.preprocess.byte_alphabet import BYTE_OF_CHARACTER, CHARACTER_OF_BYTE
from onnxgen.preprocess.detokenizer import IncrementalDetokenizer
from onnxgen.preprocess.stream_decoder import stream_decoder

STREAMS = [kind for kind in KINDS if kind != "fused_regex"]


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request, tmp_path_factory):
    tokens, decoder = KINDS[request.param]
    return make_tokenizer(tmp_path_factory.mktemp("t"), tokens, decoder, added=ADDED)


def stream(tokenizer, ids, **options):
    detokenizer = IncrementalDetokenizer(tokenizer, **options)
    return [detokenizer.push(i) for i in ids] + [detokenizer.flush()]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_deltas_add_up_to_the_one_shot_decode(tokenizer, data):
    limit = tokenizer.vocab_size + HOLES
    some = st.integers(0, limit - 1)
    few = st.lists(some, min_size=1, max_size=6).flatmap(
        lambda pool: st.lists(st.sampled_from(pool), max_size=40)
    )
    ids = data.draw(st.one_of(st.lists(some, max_size=40), few))
    skip = data.draw(st.booleans())
    deltas = stream(tokenizer, ids, skip_special_tokens=skip)
    text = tokenizer.decode(ids, skip_special_tokens=skip)
    assert "".join(deltas) == text
    assert "".join(deltas).count("�") == sum(d.count("�") for d in deltas)


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=20), junk=st.binary(max_size=6), cut=st.integers(0, 30))
def test_text_and_bytes_cut_anywhere(tmp_path_factory, text, junk, cut):
    for kind in ("byte_level", "llama"):
        tokens, decoder = KINDS[kind]
        tokenizer = _cached(tmp_path_factory, kind, tokens, decoder)
        data = (text.encode() + junk + text.encode())[:cut]
        spell = CHARACTER_OF_BYTE.__getitem__ if kind == "byte_level" else FALLBACK.__getitem__
        ids = [tokenizer.token_to_id(spell(b)) for b in data]
        assert "".join(stream(tokenizer, ids)) == tokenizer.decode(ids)


_CACHE = {}


def _cached(tmp_path_factory, kind, tokens, decoder):
    if kind not in _CACHE:
        _CACHE[kind] = make_tokenizer(tmp_path_factory.mktemp(kind), tokens, decoder)
    return _CACHE[kind]


def test_multi_byte_characters_come_out_whole(tmp_path):
    tokenizer = make_tokenizer(tmp_path, BYTES, decoders.ByteLevel())
    text = "Repeat: 😀é 안"
    ids = [BYTES.index(CHARACTER_OF_BYTE[b]) for b in text.encode()]
    deltas = stream(tokenizer, ids)
    assert "".join(deltas) == text
    assert not any("�" in delta for delta in deltas)
    assert deltas[11] == "😀" and deltas[8:11] == ["", "", ""]


def test_a_character_cut_short_is_replaced_at_the_end(tmp_path):
    tokenizer = make_tokenizer(tmp_path, BYTES, decoders.ByteLevel())
    ids = [BYTES.index(CHARACTER_OF_BYTE[b]) for b in b"\x80x\xf0\x9f"]
    assert stream(tokenizer, ids) == ["�", "x", "", "", "�"]


def test_a_run_of_fallback_bytes_is_all_or_nothing(tmp_path):
    tokenizer = make_tokenizer(tmp_path, [*FALLBACK, "a"], GEMMA)
    assert stream(tokenizer, [*"你".encode(), 256]) == ["", "", "", "你a", ""]
    assert stream(tokenizer, [*"你".encode(), 0xFF, 0x41, 256]) == ["", "", "", "����", "�", "a", ""]


def test_the_leading_space_of_the_first_piece_goes(tmp_path):
    tokenizer = make_tokenizer(tmp_path, ["▁These", "▁atoms", "▁"], LLAMA)
    assert stream(tokenizer, [0, 1, 2, 2, 1]) == ["These", " atoms", " ", " ", " atoms", ""]


def test_the_end_can_be_stripped_too(tmp_path):
    # The library panics where less text than the strip length is left, so this one is not compared.
    decoder = decoders.Sequence([decoders.Fuse(), decoders.Strip("a", 0, 2)])
    tokenizer = make_tokenizer(tmp_path, ["a", "b", "aaa"], decoder)
    assert stream(tokenizer, [1, 0, 1, 2, 0]) == ["b", "", "ab", "a", "a", ""]
    assert tokenizer.decode([1, 0, 1, 2, 0]) == "babaa"


@pytest.mark.parametrize("kind", STREAMS)
def test_text_is_given_while_tokens_come(tmp_path, kind):
    tokens, decoder = KINDS[kind]
    tokenizer = make_tokenizer(tmp_path, tokens, decoder)
    letter = tokenizer.token_to_id("a")
    other = tokenizer.token_to_id("do" if "do" in tokens else "b")
    letter = letter if letter is not None else tokenizer.token_to_id("b▁c")
    deltas = stream(tokenizer, [letter, other] * 20)
    assert len("".join(deltas[:-1])) >= len("".join(deltas)) - 3


def test_special_tokens_are_kept_on_request(tmp_path):
    tokenizer = make_tokenizer(tmp_path, BYTES, decoders.ByteLevel())
    end = tokenizer.token_to_id("<|end|>")
    assert stream(tokenizer, [end]) == ["", ""]
    assert stream(tokenizer, [end], skip_special_tokens=False) == ["<|end|>", ""]


def test_every_id_alone(tokenizer):
    for i in range(tokenizer.vocab_size + HOLES):
        assert "".join(stream(tokenizer, [i])) == tokenizer.decode([i])


def offsets(tokenizer, ids):
    """Where each token begins in the text, and the text."""
    detokenizer = IncrementalDetokenizer(tokenizer)
    found, text = [], ""
    for i in ids:
        found.append(detokenizer.offset)
        text += detokenizer.push(i)
    return found, text + detokenizer.flush()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_offsets_never_go_back_and_stay_inside_the_text(tokenizer, data):
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size + HOLES - 1), max_size=30))
    found, text = offsets(tokenizer, ids)
    assert found == sorted(found)
    if stream_decoder(tokenizer.decoder_spec) is not None:
        assert all(0 <= offset <= len(text) for offset in found)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("kind", ["byte_level", "llama", "gemma", "metaspace", "word_piece", "none"])
def test_a_token_begins_where_the_bytes_before_it_end(tmp_path_factory, kind, data):
    tokenizer = _cached(tmp_path_factory, kind, *KINDS[kind])
    plain = [i for i in range(tokenizer.vocab_size) if i not in tokenizer.special_ids]
    one = st.sampled_from(plain)
    if kind == "byte_level":
        text = data.draw(st.text(max_size=10))
        ids = [tokenizer.token_to_id(CHARACTER_OF_BYTE[b]) for b in text.encode()]
    elif kind in ("llama", "gemma"):
        parts = st.one_of(st.text(max_size=4).map(lambda t: list(t.encode())), st.lists(one, max_size=2))
        ids = [i for part in data.draw(st.lists(parts, max_size=6)) for i in part]
    else:
        ids = data.draw(st.lists(one, max_size=20))
    start = tokenizer.token_to_id("hello" if kind == "byte_level" else "do")
    found, text = offsets(tokenizer, [start, *ids])
    if "�" not in text:
        begin = len(tokenizer.decode([start]))
        before = b""
        for i, offset in zip(ids, found[1:], strict=True):
            assert text[begin:offset] == before.decode(errors="ignore")
            before += tokenizer.token_bytes(i)


def test_parts_of_a_character_begin_where_it_does(tmp_path):
    tokenizer = make_tokenizer(tmp_path, [*FALLBACK, "a"], GEMMA)
    assert offsets(tokenizer, [256, *"你😀".encode(), 256]) == ([0, 1, 1, 1, 2, 2, 2, 2, 3], "a你😀a")
    assert offsets(tokenizer, [tokenizer.token_to_id("<s>"), 256, 256]) == ([0, 0, 1], "aa")
    tokenizer = make_tokenizer(tmp_path, [*FALLBACK, "a"], LLAMA)
    assert offsets(tokenizer, [*"你".encode(), 256]) == ([0, 0, 0, 1], "你a")
    assert offsets(tokenizer, [0x20, tokenizer.token_to_id("<s>"), 256]) == ([0, 0, 0], "a")


def test_special_tokens_may_be_kept_one_by_one(tmp_path):
    tokenizer = make_tokenizer(tmp_path, BYTES, decoders.ByteLevel())
    end, begin = tokenizer.token_to_id("<|end|>"), tokenizer.token_to_id("<s>")
    assert stream(tokenizer, [begin, end], shown_ids=frozenset((end,))) == ["", "<|end|>", ""]


def test_ids_outside_the_vocabulary_are_named(tokenizer):
    detokenizer = IncrementalDetokenizer(tokenizer)
    limit = tokenizer.vocab_size + HOLES
    for bad in (-1, limit, 2**40):
        with pytest.raises(TokenIdError, match=f"{bad} .* 0 to {limit - 1}"):
            detokenizer.push(bad)
    assert detokenizer.flush() == tokenizer.decode([])


def test_push_after_flush_is_refused(tokenizer):
    detokenizer = IncrementalDetokenizer(tokenizer)
    detokenizer.flush()
    assert detokenizer.flush() == ""
    with pytest.raises(StateError, match="new one"):
        detokenizer.push(0)


def test_the_byte_alphabet_is_the_libraries(tmp_path):
    from tokenizers import pre_tokenizers

    assert set(BYTE_OF_CHARACTER) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(BYTE_OF_CHARACTER.values()) == list(range(256))
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for char in "aé安😀\n \x00":
        mapped = whole.pre_tokenize_str(char)[0][0]
        assert bytes(BYTE_OF_CHARACTER[c] for c in mapped) == char.encode()
