import itertools
import json
import random
from pathlib import Path

import numpy as np
import pytest

from onnxgen.errors import TokenizerError
from onnxgen.preprocess.byte_alphabet import CHARACTER_OF_BYTE
from onnxgen.preprocess.chat_template import ChatTemplate
from onnxgen.preprocess.detokenizer import IncrementalDetokenizer
from onnxgen.preprocess.gguf_tokenizer import write_tokenizer_files
from onnxgen.preprocess.tokenizer import Tokenizer

GOLDENS = Path(__file__).parents[2] / "goldens" / "tokenizers"
BYTES = list(CHARACTER_OF_BYTE.values())
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def byte_level(*, extra=(), merges=("t h", "th e", "Ġ the", "1 2"), **keys):
    """Metadata of a byte-level vocabulary; ``extra`` are (token, type) pairs at its end."""
    tokens = [*BYTES, *(merge.replace(" ", "") for merge in merges), *(token for token, _ in extra)]
    types = [NORMAL] * (len(BYTES) + len(merges)) + [kind for _, kind in extra]
    metadata = {
        "general.architecture": "llama",
        "llama.context_length": 512,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.asarray(types, np.int32),
        "tokenizer.ggml.merges": list(merges),
    }
    return metadata | keys


def sentencepiece(pieces=(), **keys):
    """Metadata of a SentencePiece vocabulary: three specials, the bytes, then (piece, score, type)."""
    head = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
    entries = [*head, *((f"<0x{b:02X}>", 0.0, BYTE) for b in range(256)), *pieces]
    metadata = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [piece for piece, _, _ in entries],
        "tokenizer.ggml.scores": np.asarray([score for _, score, _ in entries], np.float32),
        "tokenizer.ggml.token_type": [kind for _, _, kind in entries],
    }
    return metadata | keys


WORDS = [
    ("▁t", -1.0, NORMAL), ("he", -2.0, NORMAL), ("▁the", -3.0, NORMAL), ("▁", -4.0, NORMAL), ("t", -5.0, NORMAL),
    ("h", -6.0, NORMAL), ("e", -7.0, NORMAL), ("x", -8.0, NORMAL),
]  # fmt: skip


def load(metadata, folder, **options):
    write_tokenizer_files(metadata, folder)
    return Tokenizer.from_folder(folder, **options)


def tokens_of(tokenizer, text, **options):
    return [tokenizer.id_to_token(i) for i in tokenizer.encode(text, **options)]


def golden(name):
    content = json.loads((GOLDENS / f"{name}.json").read_text(encoding="utf-8"))
    reduced = content["metadata"]
    size = reduced["size"]
    entries = [reduced["tokens"].get(str(i), [f"[PAD{i}]", UNUSED, -1000.0]) for i in range(size)]
    metadata = reduced["keys"] | {
        "tokenizer.ggml.tokens": [token for token, _, _ in entries],
        "tokenizer.ggml.token_type": np.asarray([kind for _, kind, _ in entries], np.int32),
        "tokenizer.ggml.scores": np.asarray([score for _, _, score in entries], np.float32),
    }
    if reduced["merges"]:
        metadata["tokenizer.ggml.merges"] = reduced["merges"]
    return content, metadata


@pytest.mark.parametrize("name", ["smollm2", "gemma3-270m"])
def test_ids_are_those_of_the_original_tokenizer(tmp_path, name):
    content, metadata = golden(name)
    tokenizer = load(metadata, tmp_path, model_vocab_size=content["metadata"]["size"])
    assert len(content["ids"]) > 70
    for text, ids in content["ids"]:
        assert tokenizer.encode(text) == ids, text
        detokenizer = IncrementalDetokenizer(tokenizer)
        assert "".join(map(detokenizer.push, ids)) + detokenizer.flush() == tokenizer.decode(ids)
        kept = tokenizer.decode(ids, skip_special_tokens=False)
        assert b"".join(map(tokenizer.token_bytes, ids)).decode() == kept
    for text, ids in content["ids_with_special_tokens"]:
        assert tokenizer.encode(text, add_special_tokens=True) == ids, text


def test_byte_level_merges_and_special_tokens(tmp_path):
    extra = [("<|end|>", CONTROL), ("<think>", USER), ("<｜bos｜>", CONTROL)]
    bos = len(BYTES) + 4 + 2
    keys = {"tokenizer.ggml.bos_token_id": bos, "tokenizer.ggml.eos_token_id": np.uint32(bos - 2)}
    tokenizer = load(byte_level(extra=extra, **keys), tmp_path)
    assert tokens_of(tokenizer, "a the<|end|><think>12<｜bos｜>") == [
        "a", "Ġthe", "<|end|>", "<think>", "12", "<｜bos｜>",
    ]  # fmt: skip
    assert tokenizer.encode("<｜bos｜>") == [bos]
    assert tokenizer.special_ids == {bos, bos - 2}
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<｜bos｜>", "<|end|>")
    assert tokenizer.encode("a", add_special_tokens=True) == tokenizer.encode("a")
    assert tokenizer.decode(tokenizer.encode("é😀\x00<think>")) == "é😀\x00<think>"


def test_begin_and_end_are_added_as_the_file_says(tmp_path):
    extra = [("<s>", CONTROL), ("</s>", CONTROL)]
    begin = len(BYTES) + 4
    ids = {"tokenizer.ggml.bos_token_id": begin, "tokenizer.ggml.eos_token_id": begin + 1}
    for add_bos in (True, False):
        for add_eos in (True, False):
            flags = {"tokenizer.ggml.add_bos_token": add_bos, "tokenizer.ggml.add_eos_token": add_eos}
            tokenizer = load(byte_level(extra=extra, **ids, **flags), tmp_path)
            expected = [begin] * add_bos + tokenizer.encode("x") + [begin + 1] * add_eos
            assert tokenizer.encode("x", add_special_tokens=True) == expected
    llama3 = load(byte_level(extra=extra, **ids, **{"tokenizer.ggml.pre": "llama-bpe"}), tmp_path)
    assert llama3.encode("x", add_special_tokens=True) == [begin, *llama3.encode("x")]


def test_a_word_that_is_a_token_needs_no_merges_where_the_rule_says_so(tmp_path):
    extra = [("xyz", NORMAL)]
    plain = load(byte_level(extra=extra), tmp_path)
    assert tokens_of(plain, "xyz") == ["x", "y", "z"]
    llama3 = load(byte_level(extra=extra, **{"tokenizer.ggml.pre": "llama-bpe"}), tmp_path)
    assert tokens_of(llama3, "xyz") == ["xyz"]


def test_composed_text_where_the_rule_says_so(tmp_path):
    merges = ("Ã ©",)
    composed = load(byte_level(merges=merges, **{"tokenizer.ggml.pre": "qwen2"}), tmp_path)
    assert tokens_of(composed, "e\u0301") == ["Ã©"]
    as_is = load(byte_level(merges=merges), tmp_path)
    assert len(as_is.encode("e\u0301")) == 3


def test_filler_rows_decode_to_nothing(tmp_path):
    start = len(BYTES) + 4
    extra = [(f"[PAD{start}]", UNUSED), ("<|end|>", CONTROL), (f"[PAD{start + 2}]", UNUSED)]
    tokenizer = load(byte_level(extra=extra), tmp_path, model_vocab_size=start + 3)
    assert tokenizer.decode([start, start + 2]) == ""
    assert tokenizer.token_to_id("<|end|>") == start + 1


def test_sentencepiece_merges_follow_the_scores(tmp_path):
    tokenizer = load(sentencepiece(WORDS), tmp_path)
    assert tokens_of(tokenizer, "the the") == ["▁the", "▁the"]
    assert tokens_of(tokenizer, "xhe") == ["▁", "x", "he"]
    assert tokens_of(tokenizer, "thex", add_special_tokens=True) == ["<s>", "▁the", "x"]
    assert tokens_of(tokenizer, " the") == ["▁", "▁the"]
    assert tokenizer.decode(tokenizer.encode(" the")) == " the"
    assert tokens_of(tokenizer, "é") == ["▁", "<0xC3>", "<0xA9>"]
    assert tokens_of(tokenizer, "") == []
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<s>", "</s>")


def test_sentencepiece_without_the_space_in_front(tmp_path):
    tokenizer = load(sentencepiece(WORDS, **{"tokenizer.ggml.add_space_prefix": False}), tmp_path)
    assert tokens_of(tokenizer, "the the") == ["t", "he", "▁the"]
    assert tokenizer.decode(tokenizer.encode(" the")) == " the"


def test_sentencepiece_equals_joining_the_best_neighbours(tmp_path):
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    letters = "abc▁"
    pieces = {letter: -100.0 - i for i, letter in enumerate(letters)}
    for rank in range(60):
        pieces.setdefault("".join(rng.choices(letters, k=rng.randint(2, 5))), -1.0 - rank)
    tokenizer = load(
        sentencepiece(
            [(p, s, NORMAL) for p, s in pieces.items()], **{"tokenizer.ggml.add_space_prefix": False}
        ),
        tmp_path,
    )
    for _ in range(300):
        text = "".join(rng.choices("abc ", k=rng.randint(0, 12)))
        symbols = list(text.replace(" ", "▁"))
        while True:
            joined = [
                (pieces[a + b], -i) for i, (a, b) in enumerate(itertools.pairwise(symbols)) if a + b in pieces
            ]
            if not joined:
                break
            at = -max(joined)[1]
            symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
        assert tokens_of(tokenizer, text) == symbols, f"seed {seed}: {text!r}"


def test_text_is_never_merged_into_control_tokens(tmp_path):
    pieces = [("<", -1.0, NORMAL), ("eot>", -2.0, NORMAL), ("<eot>", -3.0, CONTROL)]
    pieces += [(letter, -9.0, NORMAL) for letter in "eot>"] + [("eo", -4.0, NORMAL), ("t>", -5.0, NORMAL)]
    tokenizer = load(sentencepiece(pieces, **{"tokenizer.ggml.add_space_prefix": False}), tmp_path)
    assert tokens_of(tokenizer, "<eot>") == ["<eot>"]
    assert tokens_of(tokenizer, "<eot>", parse_special=False) == ["<", "eot>"]


def test_the_end_of_a_turn_is_special_even_if_its_type_is_not(tmp_path):
    extra = [("<|eot|>", NORMAL), ("word", NORMAL)]
    start = len(BYTES) + 4
    keys = {"tokenizer.ggml.eot_token_id": start, "tokenizer.ggml.eos_token_id": start + 1}
    tokenizer = load(byte_level(extra=extra, **keys), tmp_path)
    assert tokenizer.special_ids == {start}
    assert tokenizer.encode("<|eot|>") == [start]
    assert len(tokenizer.encode("word")) == 4


def test_white_space_after_special_tokens_of_phi3(tmp_path):
    pieces = [*WORDS, ("<|user|>", 0.0, USER), ("<|end|>", 0.0, CONTROL), ("\n", -20.0, NORMAL)]
    phi3 = load(sentencepiece(pieces, **{"general.architecture": "phi3"}), tmp_path)
    assert tokens_of(phi3, "<|end|>\nx") == ["<|end|>", "▁", "x"]
    other = load(sentencepiece(pieces), tmp_path)
    assert tokens_of(other, "<|end|>\nx") == ["<|end|>", "▁", "\n", "x"]


def test_unigram(tmp_path):
    tokens = ["<pad>", "</s>", "<unk>", "▁the", "▁", "t", "h", "e", "▁th"]
    metadata = {
        "tokenizer.ggml.model": "t5",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0, 0.0, 0.0, -2.0, -3.0, -4.0, -4.0, -4.0, -3.5],
        "tokenizer.ggml.token_type": [CONTROL, CONTROL, UNKNOWN] + [NORMAL] * 6,
    }
    tokenizer = load(metadata, tmp_path)
    assert tokens_of(tokenizer, "the  th", add_special_tokens=True) == ["▁the", "▁th", "</s>"]
    assert tokenizer.decode(tokenizer.encode("the th")) == "the th"
    assert tokens_of(tokenizer, "x") == ["▁", "<unk>"]


def test_spaces_as_letters_with_merges_of_the_file(tmp_path):
    tokens = ["<pad>", "<eos>", "<bos>", *(f"<0x{b:02X}>" for b in range(256)), "▁", "a", "▁a", "  "]
    metadata = {
        "tokenizer.ggml.model": "gemma4",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [CONTROL] * 3 + [BYTE] * 256 + [NORMAL] * 3 + [USER],
        "tokenizer.ggml.merges": ["▁ ▁", "▁ a"],
        "tokenizer.ggml.bos_token_id": 2,
    }
    tokenizer = load(metadata, tmp_path)
    assert tokens_of(tokenizer, " a  a", add_special_tokens=True) == ["▁a", "▁▁", "a"]
    assert tokenizer.decode(tokenizer.encode(" a  a")) == " a  a"


def test_configuration_and_templates(tmp_path):
    keys = {
        "tokenizer.chat_template": "{{ messages[0].content }}\n",
        "tokenizer.chat_template.tool_use": "tools: {{ tools | length }}",
        "tokenizer.chat_templates": ["tool_use"],
    }
    write_tokenizer_files(byte_level(**keys), tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert config["model_max_length"] == 512
    assert config["chat_template"] == (tmp_path / "chat_template.jinja").read_text()
    template = ChatTemplate.require(tmp_path)
    assert template.source == str(tmp_path / "chat_template.jinja")
    assert template.render([{"role": "user", "content": "hé"}]) == "hé"
    assert template.render([{"role": "user", "content": "x"}], tools=[{}]) == "tools: 1"


def without(metadata, key):
    return {name: value for name, value in metadata.items() if name != key}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({}, r"no key 'tokenizer\.ggml\.model'"),
        (byte_level(**{"tokenizer.ggml.model": "bert"}), "kind 'bert'; known are gemma4, gpt2, llama, t5"),
        (byte_level(**{"tokenizer.ggml.model": "rwkv"}), "kind 'rwkv'"),
        (byte_level(**{"tokenizer.ggml.pre": "qwen3"}), "pre-tokenizer 'qwen3'; known are .*llama-bpe.*did you mean 'qwen"),
        (without(byte_level(), "tokenizer.ggml.merges"), r"no key 'tokenizer\.ggml\.merges'"),
        (without(byte_level(), "tokenizer.ggml.tokens"), r"no key 'tokenizer\.ggml\.tokens'"),
        (byte_level(**{"tokenizer.ggml.tokens": []}), "empty"),
        (byte_level(**{"tokenizer.ggml.merges": ["abc"]}), "'abc' is not two parts"),
        (byte_level(**{"tokenizer.ggml.merges": ["q q"]}), "contradicts itself"),
        (byte_level(**{"tokenizer.ggml.token_type": [1]}), "1 entries, but .* has 260"),
        (byte_level(**{"tokenizer.ggml.bos_token_id": 260}), "is 260, but ids go from 0 to 259"),
        (byte_level(**{"tokenizer.ggml.add_bos_token": True}), r"'tokenizer\.ggml\.bos_token_id' is missing"),
        (byte_level(**{"tokenizer.chat_template.../x": "a"}), "can't be the name of a file"),
        (without(sentencepiece(WORDS), "tokenizer.ggml.scores"), r"no key 'tokenizer\.ggml\.scores'"),
        (sentencepiece(WORDS, **{"tokenizer.ggml.scores": [1.0]}), "1 entries"),
    ],
)  # fmt: skip
def test_bad_metadata_is_named(tmp_path, metadata, message):
    with pytest.raises(TokenizerError, match=message):
        write_tokenizer_files(metadata, tmp_path)


def test_a_file_that_names_no_pre_tokenizer_says_so(tmp_path, caplog):
    load(without(byte_level(), "tokenizer.ggml.pre"), tmp_path)
    assert "does not name its pre-tokenizer" in caplog.text


def test_no_token_types_means_ordinary_tokens(tmp_path):
    tokenizer = load(without(byte_level(), "tokenizer.ggml.token_type"), tmp_path)
    assert tokenizer.special_ids == frozenset()
    assert tokens_of(tokenizer, "the") == ["the"]
