import json

import pytest

from onnxgen.errors import MetadataError
from onnxgen.metadata.end_tokens import folder_end_ids, turn_ends


def write(folder, name, document):
    text = document if isinstance(document, str) else json.dumps(document)
    (folder / name).write_text(text, encoding="utf-8")


def added(*tokens, **options):
    entries = [{"id": i, "content": text, "special": True} for i, text in tokens]
    return json.dumps({"version": "1.0", "added_tokens": entries, "model": {}}, **options)


def test_ends_of_all_files_are_joined(tmp_path):
    assert folder_end_ids(tmp_path) == ()
    write(tmp_path, "generation_config.json", {"eos_token_id": [9, 7]})
    write(tmp_path, "config.json", {"eos_token_id": 7, "text_config": {"eos_token_id": [5]}})
    write(tmp_path, "tokenizer_config.json", {"eos_token": {"content": "</s>"}})
    write(tmp_path, "tokenizer.json", added((2, "</s>"), (3, "<|im_end|>"), (4, "<|eot_id|>")))
    assert folder_end_ids(tmp_path) == (9, 7, 5, 2)
    write(tmp_path, "chat_template.jinja", "{{ m.content + '<|im_end|>' }}")
    assert folder_end_ids(tmp_path) == (9, 7, 5, 2, 3)
    assert folder_end_ids(tmp_path, vocab_size=7) == (5, 2, 3)


@pytest.mark.parametrize(
    "place", ["chat_template.jinja", "chat_template.json", "tokenizer_config.json", "named"]
)
def test_templates_show_their_turn_ends_wherever_they_are(tmp_path, place):
    text = "<start_of_turn>{{ m }}<end_of_turn>"
    if place == "named":
        write(tmp_path, "tokenizer_config.json", {"chat_template": [{"name": "default", "template": text}]})
    else:
        write(tmp_path, place, text if place.endswith("jinja") else {"chat_template": text})
    write(tmp_path, "tokenizer.json", added((1, "<eos>"), (106, "<end_of_turn>"), indent=2))
    assert folder_end_ids(tmp_path) == (106,)


def test_ids_are_looked_up_in_the_settings_first(tmp_path):
    decoder = {"32007": {"content": "<|end|>"}, "1": {"content": "<|user|>"}}
    write(tmp_path, "tokenizer_config.json", {"added_tokens_decoder": decoder, "chat_template": "<|end|>"})
    assert folder_end_ids(tmp_path) == (32007,)


@pytest.mark.parametrize("ascii_only", [True, False])
def test_texts_of_any_script_are_found(tmp_path, ascii_only):
    name = "<｜end▁of▁sentence｜>"
    write(tmp_path, "tokenizer_config.json", {"eos_token": name})
    write(tmp_path, "tokenizer.json", added((1, name), ensure_ascii=ascii_only))
    assert folder_end_ids(tmp_path) == (1,)


def test_the_end_of_a_channel_is_no_end_of_a_turn():
    assert turn_ends("<|user|>x<|end|>") == ["<|end|>"]
    assert turn_ends("<|channel|>final<|message|>x<|return|> <|call|> <|end|>") == ["<|return|>", "<|call|>"]


def test_what_is_no_id_is_left_out(tmp_path):
    write(tmp_path, "generation_config.json", {"eos_token_id": [True, -1, "2", 3, None]})
    write(tmp_path, "tokenizer_config.json", {"eos_token": 5, "chat_template": 7, "added_tokens_decoder": []})
    assert folder_end_ids(tmp_path) == (3,)


def test_a_broken_file_is_named(tmp_path):
    write(tmp_path, "generation_config.json", "{")
    with pytest.raises(MetadataError, match="generation_config"):
        folder_end_ids(tmp_path)
