from __future__ import annotations

import json
import shutil

import pytest

import tiny_tokenizer
from onnxgen.engine.speculation.draft_vocabulary import check_draft_vocabulary
from onnxgen.errors import ConfigError
from onnxgen.preprocess.tokenizer import Tokenizer
from tiny_tokenizer import EOS, VOCAB_SIZE


@pytest.fixture
def folders(tmp_path):
    for name in ("large", "small"):
        folder = tmp_path / name
        folder.mkdir()
        tiny_tokenizer.write_tokenizer(folder)
    return tmp_path / "large", tmp_path / "small"


def _change(folder, edit):
    path = folder / "tokenizer.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    edit(document)
    path.write_text(json.dumps(document), encoding="utf-8")


def _check(folders, **options):
    large, small = map(Tokenizer.from_folder, folders)
    sizes = {"target_rows": VOCAB_SIZE, "draft_rows": VOCAB_SIZE, "target_eos": [EOS], "draft_eos": [EOS]}
    check_draft_vocabulary(large, small, **{**sizes, **options})


def _add_word(document):
    vocab = document["model"]["vocab"]
    vocab["Ġers"] = len(vocab)


def _add_special(document, special=True):
    added = dict(document["added_tokens"][0])
    document["added_tokens"].append({**added, "id": VOCAB_SIZE, "content": "<|image|>", "special": special})


def _swap_words(document):
    vocab = document["model"]["vocab"]
    vocab["the"], vocab["in"] = vocab["in"], vocab["the"]


def test_the_same_vocabulary_is_taken_whatever_the_padding_is(folders):
    _check(folders)
    _check(folders, target_rows=VOCAB_SIZE + 64)
    _check(folders, draft_rows=VOCAB_SIZE + 128)


@pytest.mark.parametrize("which", [0, 1])
def test_added_tokens_behind_the_others_may_be_in_one_only(folders, which):
    _change(folders[which], _add_special)
    _check(folders)


@pytest.mark.parametrize("which", [0, 1])
def test_a_larger_vocabulary_is_refused_with_both_sizes(folders, which):
    _change(folders[which], _add_word)
    sizes = [VOCAB_SIZE, VOCAB_SIZE]
    sizes[which] += 1
    with pytest.raises(ConfigError, match=f"of {sizes[0]} and {sizes[1]} tokens, token {VOCAB_SIZE}, 'Ġers'"):
        _check(folders)


def test_the_first_token_that_differs_is_named(folders):
    _change(folders[1], _swap_words)
    first = tiny_tokenizer.words().index("the")
    second = tiny_tokenizer.words().index("in")
    at = min(first, second)
    with pytest.raises(ConfigError, match=f"token {at} is 'the' in one and 'in' in the other"):
        _check(folders)


def test_a_token_that_is_special_in_one_only_is_refused(folders):
    _change(folders[0], _add_special)
    _change(folders[1], lambda document: _add_special(document, special=False))
    with pytest.raises(
        ConfigError, match=f"token {VOCAB_SIZE}, .*a special token in one and none in the other"
    ):
        _check(folders, target_rows=VOCAB_SIZE + 1, draft_rows=VOCAB_SIZE + 1)


def test_other_ends_are_refused_unless_some_are_the_same(folders):
    _check(folders, target_eos=[EOS, 1], draft_eos=[EOS])
    _check(folders, target_eos=[], draft_eos=[EOS])
    with pytest.raises(ConfigError, match=r"end answers with different tokens: 2 .*eos.* and 1 .*bos"):
        _check(folders, draft_eos=[1])


def test_logits_that_lack_words_are_refused(folders):
    with pytest.raises(ConfigError, match=f"of {VOCAB_SIZE} and 100 tokens, which is less"):
        _check(folders, draft_rows=100)


def test_a_model_is_a_draft_of_itself(folders, tmp_path):
    shutil.copytree(folders[0], tmp_path / "copy")
    _check((folders[0], tmp_path / "copy"))
