"""How each ``tokenizer.ggml.pre`` cuts text into words before merging, for byte-level vocabularies.

A GGUF file names the rule and does not spell it out. Each entry here is the rule as the model's own
``tokenizer.json`` has it, in that file's terms; where the same name serves several models, it is what
they have in common.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

Step = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """A rule for cutting text.

    Attributes:
        steps: Pre-tokenizers in the form of ``tokenizer.json``, the last one mapping bytes to characters.
        nfc: Text is composed (Unicode form C) first.
        ignore_merges: A word that is a token is taken whole, whatever the merges say.
        add_bos: Begins with the token for that where the file does not say.
    """

    steps: tuple[Step, ...]
    nfc: bool = False
    ignore_merges: bool = False
    add_bos: bool = False


def _split(pattern: str) -> Step:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _byte_level(*, use_regex: bool) -> Step:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def _digits(*, individual: bool) -> Step:
    return {"type": "Digits", "individual_digits": individual}


def _split_bytes(*patterns: str) -> tuple[Step, ...]:
    return (*map(_split, patterns), _byte_level(use_regex=False))


_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SLASH_TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED_START = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+"
_CASED_REST = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}{{1,3}}|{_TAIL}"
_QWEN2 = rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}|{_TAIL}"
_QWEN35 = (
    rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_TEKKEN = rf"{_CASED_START}|{_CASED_REST}|\p{{N}}|{_SLASH_TAIL}"
_GPT4O = rf"{_CASED_START}{_CONTRACTIONS}?|{_CASED_REST}{_CONTRACTIONS}?|\p{{N}}{{1,3}}|{_SLASH_TAIL}"
_SEED_CODER = rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
_BAILING = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
_BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
_DEEPSEEK_CJK = "[一-龥ࠀ-一가-퟿]+"
# Cased letters of the scripts that were thought of; escapes, for some look like others.
_DEEPSEEK_LETTERS = (
    r"\s?["
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"
    "\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba"
    "\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45"
    "\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe"
    "\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc"
    "\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3"
    "\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
    "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
    "\U0001e900-\U0001e943"
    "]+"
)
_DEEPSEEK_V3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

_PLAIN_GPT2 = PreTokenizer((_byte_level(use_regex=True),))
_COMPOSED_GPT2 = PreTokenizer((_byte_level(use_regex=True),), nfc=True)
_DIGITS_GPT2 = PreTokenizer((_digits(individual=True), _byte_level(use_regex=True)))
_LLAMA3_RULE = PreTokenizer(_split_bytes(_LLAMA3), ignore_merges=True, add_bos=True)
_QWEN2_RULE = PreTokenizer(_split_bytes(_QWEN2))
_GPT4O_RULE = PreTokenizer(_split_bytes(_GPT4O))
_DEEPSEEK_V3_RULE = PreTokenizer(_split_bytes(r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", _DEEPSEEK_V3))
_BAILING_RULE = PreTokenizer(_split_bytes(_BAILING))

PRE_TOKENIZERS: Mapping[str, PreTokenizer] = MappingProxyType(
    {
        "default": PreTokenizer(
            _split_bytes(r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
        ),
        "a.x-4.0": _PLAIN_GPT2,
        "bailingmoe": _BAILING_RULE,
        "bailingmoe2": _BAILING_RULE,
        "bloom": PreTokenizer(_split_bytes(_BLOOM)),
        "chatglm-bpe": PreTokenizer(_split_bytes(_LLAMA3)),
        "command-r": PreTokenizer((_digits(individual=True), _byte_level(use_regex=True)), nfc=True),
        "codeshell": _DIGITS_GPT2,
        "dbrx": PreTokenizer(_split_bytes(_LLAMA3)),
        "deepseek-coder": PreTokenizer(
            (
                *map(_split, (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _DEEPSEEK_CJK)),
                _digits(individual=True),
                _byte_level(use_regex=False),
            )
        ),
        "deepseek-llm": PreTokenizer(
            (
                *map(
                    _split,
                    (r"[\r\n]", _DEEPSEEK_LETTERS, r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", _DEEPSEEK_CJK),
                ),
                _digits(individual=True),
                _byte_level(use_regex=False),
            )
        ),
        "deepseek-r1-qwen": _QWEN2_RULE,
        "deepseek-v3": _DEEPSEEK_V3_RULE,
        "exaone": _DIGITS_GPT2,
        "exaone4": _PLAIN_GPT2,
        "falcon": PreTokenizer(
            (
                {"type": "Punctuation", "behavior": "Contiguous"},
                _byte_level(use_regex=True),
                _digits(individual=False),
                _split("[0-9][0-9][0-9]"),
            )
        ),
        "falcon-h1": _LLAMA3_RULE,
        "falcon3": _LLAMA3_RULE,
        "gigachat": _PLAIN_GPT2,
        "glm4": PreTokenizer(_split_bytes(_LLAMA3)),
        "gpt-2": _PLAIN_GPT2,
        "gpt-4o": _GPT4O_RULE,
        "gpt3-finnish": PreTokenizer(_split_bytes(_BLOOM)),
        "granite-docling": _PLAIN_GPT2,
        "grok-2": _QWEN2_RULE,
        "hunyuan": _QWEN2_RULE,
        "hunyuan-dense": _DEEPSEEK_V3_RULE,
        "jais": _PLAIN_GPT2,
        "kanana2": _GPT4O_RULE,
        "lfm2": _LLAMA3_RULE,
        "llada-moe": _BAILING_RULE,
        "llama-bpe": _LLAMA3_RULE,
        "llama-v3": _LLAMA3_RULE,
        "llama3": _LLAMA3_RULE,
        "llama4": _GPT4O_RULE,
        "megrez": _QWEN2_RULE,
        "mellum": _PLAIN_GPT2,
        "mellum2": _DIGITS_GPT2,
        "midm-2.0": _LLAMA3_RULE,
        "minerva-7b": _DIGITS_GPT2,
        "minimax-m2": _GPT4O_RULE,
        "mpt": _COMPOSED_GPT2,
        "olmo": _COMPOSED_GPT2,
        "phi-2": _PLAIN_GPT2,
        "pixtral": _LLAMA3_RULE,
        "poro-chat": PreTokenizer(_split_bytes(_BLOOM)),
        "qwen2": PreTokenizer(_split_bytes(_QWEN2), nfc=True),
        "qwen35": PreTokenizer(_split_bytes(_QWEN35), nfc=True),
        "refact": _DIGITS_GPT2,
        "seed-coder": PreTokenizer(_split_bytes(_SEED_CODER)),
        "smaug-bpe": PreTokenizer(_split_bytes(_LLAMA3)),
        "smollm": _DIGITS_GPT2,
        "solar-open": _QWEN2_RULE,
        "stablelm2": _QWEN2_RULE,
        "starcoder": _DIGITS_GPT2,
        "tekken": PreTokenizer(_split_bytes(_TEKKEN), ignore_merges=True, add_bos=True),
        "trillion": _PLAIN_GPT2,
        "viking": PreTokenizer(
            (_split(_BLOOM), _digits(individual=True), _byte_level(use_regex=False)),
        ),
    }
)
"""Rules by their name in GGUF files."""
