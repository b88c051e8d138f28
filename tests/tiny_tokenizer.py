"""A byte-level BPE tokenizer of 272 ids for test checkpoints: any text round-trips, a few words are merged."""

from __future__ import annotations

import json
from pathlib import Path

PAD, BOS, EOS = 0, 1, 2
SPECIALS = ("<|pad|>", "<|bos|>", "<|eos|>")
MERGES = (
    ("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n"), ("Ġ", "a"), ("e", "r"), ("o", "n"),
    ("Ġ", "w"), ("r", "e"), ("in", "g"), ("Ġ", "s"), ("l", "l"), ("o", "r"),
)  # fmt: skip
VOCAB_SIZE = len(SPECIALS) + 256 + len(MERGES)
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message.role }}]{{ message.content }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)


def _byte_characters() -> list[str]:
    """The printable character that stands for each byte in byte-level BPE."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    table = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
    return [table[b] for b in range(256)]


def words() -> list[str]:
    """The vocabulary by id."""
    return [*SPECIALS, *_byte_characters(), *("".join(pair) for pair in MERGES)]


def _added(token_id: int, content: str) -> dict[str, object]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token_id, "content": content, **flags, "special": True}


def write_tokenizer(folder: Path) -> None:
    """Write ``tokenizer.json``, ``tokenizer_config.json`` and ``special_tokens_map.json``."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(i, content) for i, content in enumerate(SPECIALS)],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {word: i for i, word in enumerate(words())},
            "merges": [list(pair) for pair in MERGES],
        },
    }
    named = {"pad_token": SPECIALS[PAD], "bos_token": SPECIALS[BOS], "eos_token": SPECIALS[EOS]}
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": False,
        "model_max_length": 1024,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
        "added_tokens_decoder": {str(i): _added(i, content) for i, content in enumerate(SPECIALS)},
        **named,
    }
    for file, content in {
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": settings,
        "special_tokens_map.json": named,
    }.items():
        (folder / file).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
