"""Special token ids from everything in a checkpoint that names some."""

from __future__ import annotations

import numpy as np
import pytest

from onnxgen.builder.special_tokens import SpecialTokenIds, from_folder, from_gguf
from onnxgen.errors import CheckpointError


def test_ends_of_all_sources_are_joined_in_order() -> None:
    ids = from_folder(
        {"eos_token_id": 7, "bos_token_id": 1},
        {"eos_token_id": [9, 7], "pad_token_id": 3},
        {"eos_token": 11, "bos_token": 2},
        where="x",
    )
    assert ids == SpecialTokenIds(bos=1, eos=(9, 7, 11), pad=3)


def test_ends_that_only_a_template_shows_come_last() -> None:
    ids = from_folder({"eos_token_id": 7}, {}, {"eos_token": 7}, where="x", other_ends=(7, 12))
    assert ids.eos == (7, 12)


def test_the_end_of_a_message_in_a_channel_is_no_end() -> None:
    metadata = {
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.ggml.tokens": ["<|return|>", "<|end|>", "<|channel|>", "<|call|>", "<|endoftext|>"],
        "tokenizer.ggml.token_type": [3] * 5,
    }
    assert from_gguf(metadata, where="x").eos == (0, 3, 4)


def test_ids_of_a_nested_decoder_count() -> None:
    ids = from_folder({"text_config": {"eos_token_id": 5, "bos_token_id": 4}}, {}, {}, where="x")
    assert ids == SpecialTokenIds(bos=4, eos=(5,), pad=5)


def test_a_checkpoint_without_an_end_is_refused() -> None:
    with pytest.raises(CheckpointError, match="no end-of-sequence token"):
        from_folder({}, {"eos_token_id": None}, {}, where="x")
    with pytest.raises(CheckpointError, match="'eos_token_id' is 'two'"):
        from_folder({"eos_token_id": "two"}, {}, {}, where="x")
    with pytest.raises(CheckpointError, match="'eos_token_id' is True"):
        from_folder({"eos_token_id": True}, {}, {}, where="x")


def test_gguf_ends_include_the_control_tokens_that_end_turns() -> None:
    metadata = {
        "tokenizer.ggml.eos_token_id": np.uint32(1),
        "tokenizer.ggml.eot_token_id": 4,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.tokens": ["<s>", "</s>", "<|im_end|>", "<|eot_id|>", "x", "<end_of_turn>"],
        "tokenizer.ggml.token_type": np.array([3, 3, 1, 3, 1, 3]),
    }
    assert from_gguf(metadata, where="x") == SpecialTokenIds(bos=0, eos=(1, 4, 3, 5), pad=1)
    assert from_gguf(metadata, where="x").to_json() == {
        "bos_token_id": 0,
        "eos_token_id": [1, 4, 3, 5],
        "pad_token_id": 1,
    }


@pytest.mark.parametrize(
    ("tokens", "name"),
    [
        (SpecialTokenIds(bos=0, eos=(1, 10), pad=1), "eos_token_id 10"),
        (SpecialTokenIds(bos=-1, eos=(1,), pad=1), "bos_token_id -1"),
        (SpecialTokenIds(bos=None, eos=(1,), pad=99), "pad_token_id 99"),
    ],
)
def test_ids_without_logits_are_refused(tokens: SpecialTokenIds, name: str) -> None:
    with pytest.raises(
        CheckpointError, match=f"model: {name} is outside the model's vocabulary of 10 tokens"
    ):
        tokens.check(10, where="model")


def test_ids_at_both_ends_of_the_vocabulary_are_fine() -> None:
    SpecialTokenIds(bos=0, eos=(9,), pad=9).check(10, where="model")
