"""Tokenizer files of a model folder, and what they say of special tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onnxgen.builder.tokenizer_files import copy_tokenizer_files, named_tokens, tokenizer_facts
from onnxgen.errors import CheckpointError, TokenizerError
from tiny_tokenizer import write_tokenizer


def test_known_files_are_copied_and_others_are_not(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "additional_chat_templates").mkdir(parents=True)
    target.mkdir()
    for name in ("tokenizer.json", "chat_template.jinja", "merges.txt", "config.json", "README.md"):
        (source / name).write_text("{}")
    write_tokenizer(source)
    (source / "special_tokens_map.json").unlink()
    (source / "tokenizer_config.json").unlink()
    (source / "additional_chat_templates" / "tool.jinja").write_text("x")
    copy_tokenizer_files(source, target)
    assert {path.relative_to(target).as_posix() for path in target.rglob("*")} == {
        "tokenizer.json",
        "chat_template.jinja",
        "merges.txt",
        "additional_chat_templates",
        "additional_chat_templates/tool.jinja",
    }


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("")
    with pytest.raises(CheckpointError, match="is empty"):
        copy_tokenizer_files(tmp_path, tmp_path / "target")


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "generation_config.json"])
@pytest.mark.parametrize(
    ("content", "message"), [("{", "not valid JSON"), ("[]", "holds an array, expected an object")]
)
def test_a_broken_file_is_named_where_it_came_from(
    name: str, content: str, message: str, tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    write_tokenizer(source)
    (source / name).write_text(content)
    with pytest.raises(CheckpointError, match=message) as caught:
        copy_tokenizer_files(source, target)
    assert str(caught.value).startswith(str(source / name))


def test_a_tokenizer_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "target").mkdir()
    with pytest.raises(TokenizerError, match="not a tokenizer this version can read"):
        copy_tokenizer_files(tmp_path, tmp_path / "target")


def test_a_missing_tokenizer_is_told_with_what_to_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "tokenizer.model").write_bytes(b"x")
    (tmp_path / "target").mkdir()
    copy_tokenizer_files(tmp_path, tmp_path / "target")
    assert "has tokenizer.model, but no tokenizer.json; convert it" in caplog.text


def test_named_tokens_are_found_among_added_ones_and_in_the_vocabulary(tmp_path: Path) -> None:
    tokenizer = {
        "added_tokens": [{"id": 9, "content": "<|im_end|>"}],
        "model": {"type": "BPE", "vocab": {"a": 0, "<s>": 4}},
        "pre_tokenizer": {"type": "ByteLevel"},
    }
    settings = {"eos_token": {"content": "<|im_end|>"}, "bos_token": "<s>", "pad_token": "<unknown>"}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert named_tokens(tmp_path) == {"eos_token": ("<|im_end|>", 9), "bos_token": ("<s>", 4)}
    facts = tokenizer_facts(tmp_path)
    assert facts is not None
    assert (facts["algorithm"], facts["byte_level"], facts["vocab_size"]) == ("bpe", True, 10)
    assert facts["special_tokens"]["eos_token"] == {"content": "<|im_end|>", "id": 9}


def test_a_folder_without_a_tokenizer_has_no_facts(tmp_path: Path) -> None:
    assert tokenizer_facts(tmp_path) is None
    assert named_tokens(tmp_path) == {}
