import codecs
import json
import random
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxgen.errors import OptionError, TokenIdError, TokenizerError
from onnxgen.preprocess.tokenizer import Tokenizer
from tiny_tokenizer import BOS, EOS, PAD, VOCAB_SIZE, write_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(path)
    return path


@pytest.fixture(scope="module")
def tokenizer(folder):
    return Tokenizer.from_folder(folder)


def copy(folder, target, *, config=None, change=None):
    document = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    if change:
        change(document)
    (target / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    if config is not None:
        (target / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return target


@settings(deadline=None)
@given(text=st.text(max_size=40))
def test_text_survives_the_round_trip(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode_batch([text, "", text]) == [tokenizer.encode(text), [], tokenizer.encode(text)]


def test_lone_surrogates_are_read_as_replacement_characters(tokenizer):
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a�b"
    assert tokenizer.decode(tokenizer.encode("\ud83d\ude00")) == "😀"


def test_special_tokens_are_found_in_text_and_skipped_in_decoding(tokenizer):
    ids = tokenizer.encode("<|bos|>a<|eos|>")
    assert (ids[0], ids[-1], len(ids)) == (BOS, EOS, 3)
    assert tokenizer.decode(ids) == "a"
    assert tokenizer.decode(ids, skip_special_tokens=False) == "<|bos|>a<|eos|>"
    assert tokenizer.special_ids == {PAD, BOS, EOS}


def test_special_tokens_can_be_plain_text(tokenizer):
    ids = tokenizer.encode("<|bos|>a<|eos|>", parse_special=False)
    assert not tokenizer.special_ids & set(ids)
    assert tokenizer.decode(ids) == "<|bos|>a<|eos|>"
    assert tokenizer.encode("<|bos|>") == [BOS]


def test_both_ways_of_reading_special_tokens_at_the_same_time(tokenizer):
    wrong = []

    def work(parse, expected):
        for _ in range(200):
            if tokenizer.encode("x<|eos|>", parse_special=parse) != expected:
                wrong.append(parse)

    jobs = [(parse, tokenizer.encode("x<|eos|>", parse_special=parse)) for parse in (True, False)] * 2
    threads = [threading.Thread(target=work, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_added_tokens_that_are_not_special_stay_tokens(folder, tmp_path):
    def add(document):
        document["model"]["vocab"]["<think>"] = VOCAB_SIZE
        token = {"id": VOCAB_SIZE, "content": "<think>", "special": False}
        document["added_tokens"].append(dict(document["added_tokens"][0]) | token)

    tokenizer = Tokenizer.from_folder(copy(folder, tmp_path, change=add))
    assert tokenizer.encode("<think>", parse_special=False) == [VOCAB_SIZE]
    assert tokenizer.decode([VOCAB_SIZE]) == "<think>"


def test_tokens_and_ids_by_name(tokenizer):
    assert tokenizer.token_to_id("<|eos|>") == EOS
    assert tokenizer.id_to_token(EOS) == "<|eos|>"
    assert tokenizer.token_to_id("no such token") is None
    assert tokenizer.id_to_token(VOCAB_SIZE) is None
    assert tokenizer.id_to_token(-1) is None
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == (
        "<|bos|>",
        "<|eos|>",
        "<|pad|>",
    )
    assert tokenizer.vocab_size == VOCAB_SIZE


@pytest.mark.parametrize("bad", [-1, VOCAB_SIZE, 2**31, 2**70])
def test_an_id_outside_the_vocabulary_is_named(tokenizer, bad):
    with pytest.raises(TokenIdError, match=rf"{bad} .*0 to {VOCAB_SIZE - 1}"):
        tokenizer.decode([0, bad])


def test_rows_of_the_model_without_a_token_decode_to_nothing(folder):
    tokenizer = Tokenizer.from_folder(folder, model_vocab_size=VOCAB_SIZE + 5)
    a = tokenizer.token_to_id("a")
    assert tokenizer.decode([a, VOCAB_SIZE, VOCAB_SIZE + 4, a]) == "aa"
    assert tokenizer.vocab_size == VOCAB_SIZE
    with pytest.raises(TokenIdError, match=f"0 to {VOCAB_SIZE + 4}"):
        tokenizer.decode([VOCAB_SIZE + 5])


def test_a_vocabulary_with_holes_counts_to_its_largest_id(folder, tmp_path):
    def move(document):
        document["model"]["vocab"]["the"] = 1000

    tokenizer = Tokenizer.from_folder(copy(folder, tmp_path, change=move))
    hole = next(i for i in range(VOCAB_SIZE) if tokenizer.id_to_token(i) is None)
    assert tokenizer.vocab_size == 1001
    assert tokenizer.decode([hole, 1000, 999]) == "the"
    with pytest.raises(TokenIdError):
        tokenizer.decode([1001])


@pytest.mark.parametrize(
    "name", ["PreTrainedTokenizerFast", "TokenizersBackend", "LlamaTokenizer", "Foo", None, 7]
)
def test_the_class_name_does_not_matter(folder, tmp_path, tokenizer, name):
    copy(folder, tmp_path, config={} if name is None else {"tokenizer_class": name})
    assert Tokenizer.from_folder(tmp_path).encode("on the way") == tokenizer.encode("on the way")


def test_begin_and_end_by_configuration_where_the_file_adds_none(folder, tmp_path):
    config = {"bos_token": {"content": "<|bos|>", "lstrip": False}, "eos_token": "<|eos|>"}
    for add_bos, add_eos in ((True, False), (True, True), (False, False), (None, None)):
        copy(folder, tmp_path, config=config | {"add_bos_token": add_bos, "add_eos_token": add_eos})
        tokenizer = Tokenizer.from_folder(tmp_path)
        plain = tokenizer.encode("hi")
        assert tokenizer.encode("hi", add_special_tokens=True) == [BOS] * bool(add_bos) + plain + [
            EOS
        ] * bool(add_eos)
        assert len(plain) == 2


def test_the_post_processor_comes_before_the_configuration(folder, tmp_path):
    def process(document):
        document["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "<|bos|>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<|bos|>": {"id": "<|bos|>", "ids": [BOS], "tokens": ["<|bos|>"]}},
        }

    config = {"bos_token": "<|bos|>", "eos_token": "<|eos|>", "add_bos_token": True, "add_eos_token": True}
    tokenizer = Tokenizer.from_folder(copy(folder, tmp_path, change=process, config=config))
    assert tokenizer.encode("a", add_special_tokens=True) == [BOS, tokenizer.token_to_id("a")]


def test_truncation_and_padding_of_the_file_are_not_used(folder, tmp_path):
    def limit(document):
        document["truncation"] = {
            "direction": "Right",
            "max_length": 2,
            "strategy": "LongestFirst",
            "stride": 0,
        }
        document["padding"] = {
            "strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "<|pad|>",
        }  # fmt: skip

    tokenizer = Tokenizer.from_folder(copy(folder, tmp_path, change=limit))
    assert len(tokenizer.encode("abcd")) == 4
    assert [len(ids) for ids in tokenizer.encode_batch(["a", "abc"])] == [1, 3]


def test_special_tokens_from_either_file(folder, tmp_path):
    copy(folder, tmp_path, config={"eos_token": None, "pad_token": "<|eos|>"})
    (tmp_path / "special_tokens_map.json").write_text(
        json.dumps({"bos_token": {"content": "<|bos|>"}, "eos_token": "<|eos|>", "pad_token": "<|pad|>"})
    )
    tokenizer = Tokenizer.from_folder(tmp_path)
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == ("<|bos|>", None, "<|eos|>")


def test_unusual_folder_names(folder, tmp_path):
    odd = tmp_path / "Željko Håkansson" / "模型 v1"
    odd.mkdir(parents=True)
    copy(folder, odd)
    assert Tokenizer.from_folder(str(odd)).encode("the") == Tokenizer.from_folder(folder).encode("the")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n", "git lfs pull"),
        (b'{"version": "1.0", "model": {"ty', "not valid JSON: line 1"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"[]", "not a tokenizer"),
        (b'{"model": {"type": "Foo"}}', "not a tokenizer"),
        (b"null", "not a tokenizer"),
    ],
)
def test_a_broken_file_is_named(tmp_path, content, message):
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(TokenizerError, match=message) as caught:
        Tokenizer.from_folder(tmp_path)
    assert str(tmp_path / "tokenizer.json") in str(caught.value)


def test_every_truncation_is_an_error(folder, tmp_path):
    data = (folder / "tokenizer.json").read_bytes()
    for length in range(0, len(data) - 1, 97):
        (tmp_path / "tokenizer.json").write_bytes(data[:length])
        with pytest.raises(TokenizerError):
            Tokenizer.from_folder(tmp_path)


def test_a_broken_configuration_is_named(folder, tmp_path):
    copy(folder, tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"bos_token": ')
    with pytest.raises(TokenizerError, match=r"tokenizer_config\.json is not valid JSON"):
        Tokenizer.from_folder(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("[1]")
    with pytest.raises(TokenizerError, match="expected an object"):
        Tokenizer.from_folder(tmp_path)


def test_a_missing_file_says_what_to_do(tmp_path):
    with pytest.raises(TokenizerError, match=r"no tokenizer\.json; copy"):
        Tokenizer.from_folder(tmp_path)
    (tmp_path / "tokenizer.model").write_bytes(b"x")
    with pytest.raises(TokenizerError, match=r"has tokenizer\.model.*save_pretrained"):
        Tokenizer.from_folder(tmp_path)
    with pytest.raises(TokenizerError, match="not a folder"):
        Tokenizer.from_folder(tmp_path / "missing")


def test_a_byte_order_mark_is_no_part_of_the_tokenizer(folder, tokenizer, tmp_path):
    content = (folder / "tokenizer.json").read_bytes()
    (tmp_path / "tokenizer.json").write_bytes(codecs.BOM_UTF8 + content)
    assert Tokenizer.from_folder(tmp_path).encode("abc é") == tokenizer.encode("abc é")


@pytest.mark.parametrize(("content", "kind"), [("[1]", "an array"), ("null", "null"), ("1.5", "a number")])
def test_settings_that_are_no_object_are_refused_in_the_words_of_json(folder, tmp_path, content, kind):
    copy(folder, tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(content)
    with pytest.raises(TokenizerError, match=f"holds {kind}, expected an object"):
        Tokenizer.from_folder(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")
def test_files_whose_content_is_gone_are_not_taken_for_absent(folder, tmp_path):
    (tmp_path / "tokenizer.json").symlink_to("blobs/abc")
    with pytest.raises(TokenizerError, match="which does not exist"):
        Tokenizer.from_folder(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    copy(folder, tmp_path)
    (tmp_path / "tokenizer_config.json").symlink_to("blobs/def")
    with pytest.raises(TokenizerError, match=r"tokenizer_config\.json is a link to"):
        Tokenizer.from_folder(tmp_path)


@pytest.mark.parametrize("text", [5, None, b"x", ["a"]])
def test_only_text_is_encoded(tokenizer, text):
    with pytest.raises(OptionError, match="only text can be encoded, got"):
        tokenizer.encode(text)


def test_tokens_that_hold_texts_are_those_whose_bytes_do(tmp_path):
    write_tokenizer(tmp_path)
    tokenizer = Tokenizer.from_folder(tmp_path)
    seed = random.randrange(2**32)
    print("seed", seed)
    source = random.Random(seed)
    contents = tokenizer.token_bytes_table()
    for _ in range(30):
        texts = source.choices(
            ["t", "he", ".", "(", "in", " ", "é", "\n", "[a-z]", "|", "zz"], k=source.randrange(4)
        )
        expected = [i for i, c in enumerate(contents) if any(text.encode() in c for text in texts)]
        assert list(tokenizer.ids_holding(texts)) == expected
    assert tokenizer.ids_holding(["\ud800"]) == ()
