"""The ``tokenizer.json`` of each kind of tokenizer that GGUF files hold."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from onnxgen.errors import TokenizerError
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.preprocess.gguf_pretokenizers import PRE_TOKENIZERS
from onnxgen.preprocess.gguf_vocabulary import GgufVocabulary, TokenType, flag, read_vocabulary, require
from onnxgen.preprocess.sentencepiece_merges import derive_merges

_log = logging.getLogger(__name__)

_SPACE = "\u2581"
_ADD_BOS = "tokenizer.ggml.add_bos_token"
_ADD_EOS = "tokenizer.ggml.add_eos_token"
# Special tokens of these architectures take the white space after them, which no key tells.
_STRIPS_AFTER_SPECIAL = frozenset({"phi3"})
_NEVER_STRIPS = frozenset({"<unk>", "<s>", "<|endoftext|>"})


@dataclass(frozen=True, slots=True)
class TokenizerDocument:
    """A tokenizer in the form of ``tokenizer.json``.

    Attributes:
        vocabulary: What it was made of.
        content: The content of ``tokenizer.json``.
        tokenizer_class: Name for ``tokenizer_config.json``. We do not read it; runtimes that tell kinds of
            tokenizers by it (ONNX Runtime's extensions) treat spaces right only with a fitting one.
    """

    vocabulary: GgufVocabulary
    content: Mapping[str, Any]
    tokenizer_class: str


def _byte_level(metadata: Mapping[str, Any]) -> TokenizerDocument:
    vocabulary = read_vocabulary(metadata, defaults={})
    name = metadata.get("tokenizer.ggml.pre")
    if name is None:
        _log.warning("the GGUF file does not name its pre-tokenizer; using 'default', which may be wrong")
        name = "default"
    rule = PRE_TOKENIZERS.get(name)
    if rule is None:
        raise TokenizerError(
            f"the GGUF file has a pre-tokenizer {name!r}; known are {', '.join(sorted(PRE_TOKENIZERS))}"
            f"{did_you_mean(str(name), PRE_TOKENIZERS)}"
        )
    model = _bpe(
        _text_vocabulary(vocabulary, vocabulary.tokens),
        _merges(metadata),
        ignore_merges=rule.ignore_merges,
    )
    steps = list(rule.steps)
    content = {
        **_frame(metadata, vocabulary, list(vocabulary.tokens), add_bos=rule.add_bos),
        "normalizer": {"type": "NFC"} if rule.nfc else None,
        "pre_tokenizer": steps[0] if len(steps) == 1 else {"type": "Sequence", "pretokenizers": steps},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": model,
    }
    return TokenizerDocument(vocabulary, content, "PreTrainedTokenizerFast")


def _sentencepiece(metadata: Mapping[str, Any]) -> TokenizerDocument:
    vocabulary = read_vocabulary(metadata, defaults={"bos_token": 1, "eos_token": 2, "unk_token": 0})
    tokens = _respelled(vocabulary.tokens)
    has_merges = "tokenizer.ggml.merges" in metadata
    return _spaces_as_letters(
        metadata,
        vocabulary,
        tokens,
        merges=_merges(metadata) if has_merges else derive_merges(vocabulary, tokens),
        prefix_space=flag(metadata, "tokenizer.ggml.add_space_prefix", default=True),
        add_bos=True,
    )


def _gemma4(metadata: Mapping[str, Any]) -> TokenizerDocument:
    vocabulary = read_vocabulary(metadata, defaults={})
    return _spaces_as_letters(
        metadata,
        vocabulary,
        _respelled(vocabulary.tokens),
        merges=_merges(metadata),
        prefix_space=False,
        add_bos=False,
    )


def _spaces_as_letters(
    metadata: Mapping[str, Any],
    vocabulary: GgufVocabulary,
    tokens: list[str],
    *,
    merges: Sequence[tuple[str, str]],
    prefix_space: bool,
    add_bos: bool,
) -> TokenizerDocument:
    # BPE over whole texts, with spaces as the letter U+2581 and bytes for characters without a token.
    to_letter = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
    prepend = {"type": "Prepend", "prepend": _SPACE}
    decoders: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if prefix_space:
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    vocab = _text_vocabulary(vocabulary, tokens)
    content = {
        **_frame(metadata, vocabulary, tokens, add_bos=add_bos),
        "normalizer": {"type": "Sequence", "normalizers": [prepend, to_letter]}
        if prefix_space
        else to_letter,
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": _bpe(
            vocab,
            merges,
            unk_token=vocabulary.text("unk_token"),
            byte_fallback=all(f"<0x{byte:02X}>" in vocab for byte in range(256)),
        ),
    }
    return TokenizerDocument(vocabulary, content, "LlamaTokenizer" if prefix_space else "GemmaTokenizer")


def _unigram(metadata: Mapping[str, Any]) -> TokenizerDocument:
    defaults = {"eos_token": 1, "unk_token": 2, "pad_token": 0}
    vocabulary = read_vocabulary(metadata, defaults=defaults)
    if vocabulary.scores is None:
        require(metadata, "tokenizer.ggml.scores")
    metaspace = {"type": "Metaspace", "replacement": _SPACE, "prepend_scheme": "always", "split": True}
    steps: list[dict[str, Any]] = [metaspace]
    if flag(metadata, "tokenizer.ggml.remove_extra_whitespaces", default=True):
        steps.insert(0, {"type": "WhitespaceSplit"})
    content = {
        **_frame(metadata, vocabulary, list(vocabulary.tokens), add_bos=False, add_eos=True),
        "normalizer": _charsmap(metadata),
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "decoder": metaspace,
        "model": {
            "type": "Unigram",
            "unk_id": vocabulary.named.get("unk_token"),
            "vocab": list(zip(vocabulary.tokens, vocabulary.scores or (), strict=True)),
            "byte_fallback": False,
        },
    }
    return TokenizerDocument(vocabulary, content, "T5Tokenizer")


def _frame(
    metadata: Mapping[str, Any],
    vocabulary: GgufVocabulary,
    tokens: Sequence[str],
    *,
    add_bos: bool,
    add_eos: bool = False,
) -> dict[str, Any]:
    """The parts of ``tokenizer.json`` that all kinds share."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(metadata, vocabulary, tokens),
        "post_processor": _post_processor(
            vocabulary,
            begin=_boundary(metadata, vocabulary, _ADD_BOS, "bos_token", default=add_bos),
            end=_boundary(metadata, vocabulary, _ADD_EOS, "eos_token", default=add_eos),
        ),
    }


def _added_tokens(
    metadata: Mapping[str, Any], vocabulary: GgufVocabulary, tokens: Sequence[str]
) -> list[dict[str, Any]]:
    strips = metadata.get("general.architecture") in _STRIPS_AFTER_SPECIAL
    return [
        {
            "id": i,
            "content": tokens[i],
            "single_word": False,
            "lstrip": False,
            "rstrip": strips and kind is not TokenType.USER_DEFINED and tokens[i] not in _NEVER_STRIPS,
            "normalized": False,
            "special": kind is not TokenType.USER_DEFINED,
        }
        for i, kind in enumerate(vocabulary.types)
        if kind in (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED) and tokens[i]
    ]


def _boundary(
    metadata: Mapping[str, Any], vocabulary: GgufVocabulary, key: str, name: str, *, default: bool
) -> str | None:
    """The token to add at one end of a sequence, or None."""
    if not flag(metadata, key, default=default):
        return None
    token = vocabulary.text(name)
    if token is None and key in metadata:
        raise TokenizerError(f"GGUF key {key!r} is true, but 'tokenizer.ggml.{name}_id' is missing")
    return token


def _post_processor(
    vocabulary: GgufVocabulary, *, begin: str | None, end: str | None
) -> dict[str, Any] | None:
    if begin is None and end is None:
        return None

    def special(token: str | None, sequence: int) -> list[dict[str, Any]]:
        return [] if token is None else [{"SpecialToken": {"id": token, "type_id": sequence}}]

    def wrapped(name: str, sequence: int) -> list[dict[str, Any]]:
        return [
            *special(begin, sequence),
            {"Sequence": {"id": name, "type_id": sequence}},
            *special(end, sequence),
        ]

    ids = {begin: vocabulary.named.get("bos_token"), end: vocabulary.named.get("eos_token")}
    return {
        "type": "TemplateProcessing",
        "single": wrapped("A", 0),
        "pair": [*wrapped("A", 0), *wrapped("B", 1)],
        "special_tokens": {
            token: {"id": token, "ids": [token_id], "tokens": [token]}
            for token, token_id in ids.items()
            if token is not None
        },
    }


def _text_vocabulary(vocabulary: GgufVocabulary, tokens: Sequence[str]) -> dict[str, int]:
    # Converters fill rows of the embedding that have no token with "[PAD<id>]"; those decode to nothing.
    return {
        token: i
        for i, token in enumerate(tokens)
        if token and not (vocabulary.types[i] is TokenType.UNUSED and token == f"[PAD{i}]")
    }


def _bpe(
    vocab: Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    *,
    unk_token: str | None = None,
    byte_fallback: bool = False,
    ignore_merges: bool = False,
) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": unk_token,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": unk_token is not None,
        "byte_fallback": byte_fallback,
        "ignore_merges": ignore_merges,
        "vocab": vocab,
        "merges": merges,
    }


def _merges(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    key = "tokenizer.ggml.merges"
    merges: list[tuple[str, str]] = []
    for line in require(metadata, key):
        cut = line.find(" ", 1)  # a part may begin with a space
        if cut < 0 or cut == len(line) - 1:
            raise TokenizerError(f"GGUF key {key!r}: {line!r} is not two parts with a space between them")
        merges.append((line[:cut], line[cut + 1 :]))
    return merges


def _respelled(tokens: Sequence[str]) -> list[str]:
    # Files hold tokens of several spaces as spaces; the tokenizer sees them as the letter for a space.
    return [_SPACE * len(token) if token and not token.strip(" ") else token for token in tokens]


def _charsmap(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    data = metadata.get("tokenizer.ggml.precompiled_charsmap")
    if data is None or len(data) == 0:
        return None
    raw = bytes(int(byte) & 0xFF for byte in data)
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(raw).decode()}


DOCUMENTS: Mapping[str, Callable[[Mapping[str, Any]], TokenizerDocument]] = MappingProxyType(
    {"gpt2": _byte_level, "llama": _sentencepiece, "gemma4": _gemma4, "t5": _unigram}
)
"""What reads each ``tokenizer.ggml.model``: from metadata to a document."""
