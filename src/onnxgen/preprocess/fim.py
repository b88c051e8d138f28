"""Fill-in-the-middle: prompts for models that were trained to write what goes between two texts.

Bavarian et al., Efficient Training of Language Models to Fill in the Middle (2022):
https://arxiv.org/abs/2207.14255
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnxgen.errors import CapabilityError

if TYPE_CHECKING:
    from onnxgen.preprocess.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class FimFormat:
    """How a family of models was shown a text with a gap.

    Attributes:
        prefix: Token before the text before the gap.
        suffix: Token before the text after the gap.
        middle: Token after which the model fills the gap; None where the prompt ends with the prefix.
        suffix_first: The suffix comes before the prefix.
        stops: Tokens that end what the model fills in, as far as its vocabulary has them.
        files: How it was shown several files, None if it was not.
    """

    prefix: str
    suffix: str
    middle: str | None
    suffix_first: bool = False
    stops: tuple[str, ...] = ()
    files: RepositoryFormat | None = None

    @property
    def tokens(self) -> tuple[str, ...]:
        """All of them; none belongs into what the model fills in."""
        around = (self.prefix, self.suffix, self.middle)
        names = () if self.files is None else (self.files.repository, self.files.file)
        return (*self.stops, *(token for token in around if token is not None), *names)


@dataclass(frozen=True, slots=True)
class RepositoryFormat:
    """How a family of models was shown the files of a repository.

    Attributes:
        repository: Token before the name of the repository.
        file: Token before a file: its name, a line end, its text.
        end: Text after the repository's name and after each file.
        name_in_prefix: The name of the file with the gap stands after the token for the prefix, not before.
    """

    repository: str
    file: str
    end: str
    name_in_prefix: bool


_ANCHOR = "☺"  # tokens do not join it with what follows
_PIPED = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
_STAR = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")
_FORMATS = (
    # Qwen2.5-Coder: https://arxiv.org/abs/2409.12186
    FimFormat(
        *_PIPED,
        stops=("<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|endoftext|>"),
        files=RepositoryFormat("<|repo_name|>", "<|file_sep|>", end="\n", name_in_prefix=False),
    ),
    # CodeGemma: https://arxiv.org/abs/2406.11409
    FimFormat(*_PIPED, stops=("<|file_separator|>", "<|endoftext|>")),
    # StarCoder2: https://arxiv.org/abs/2402.19173
    FimFormat(
        *_STAR,
        stops=("<fim_pad>", "<repo_name>", "<file_sep>", "<|endoftext|>"),
        files=RepositoryFormat("<repo_name>", "<file_sep>", end="", name_in_prefix=True),
    ),
    # StarCoder (https://arxiv.org/abs/2305.06161) and Granite code (https://arxiv.org/abs/2405.04324)
    FimFormat(*_STAR, stops=("<fim_pad>", "<reponame>", "<filename>", "<|endoftext|>")),
    # SantaCoder: https://arxiv.org/abs/2301.03988
    FimFormat("<fim-prefix>", "<fim-suffix>", "<fim-middle>", stops=("<fim-pad>", "<|endoftext|>")),
    # DeepSeek-Coder: https://arxiv.org/abs/2401.14196
    FimFormat("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    # Code Llama: https://arxiv.org/abs/2308.12950
    FimFormat("▁<PRE>", "▁<SUF>", "▁<MID>", stops=("▁<EOT>",)),
    # GLM-4.5: https://arxiv.org/abs/2508.06471
    FimFormat("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", stops=("<|endoftext|>",)),
    # Codestral: https://github.com/mistralai/mistral-common
    FimFormat("[PREFIX]", "[SUFFIX]", None, suffix_first=True),
)


@dataclass(frozen=True, slots=True)
class FimPrompt:
    """A prompt with a gap to fill.

    Attributes:
        token_ids: The prompt.
        stop_ids: Tokens that end what the model fills in, beside those that end any answer.
    """

    token_ids: list[int]
    stop_ids: tuple[int, ...]


def find_fim_format(tokenizer: Tokenizer) -> FimFormat | None:
    """Find out from its tokens how a model was trained to fill gaps; None for a model without such tokens.

    Families that share the tokens around a gap differ in their tokens for files.
    """

    def has(*tokens: str | None) -> bool:
        return all(token is None or tokenizer.token_to_id(token) is not None for token in tokens)

    for format in _FORMATS:
        files = format.files
        if has(format.prefix, format.suffix, format.middle) and (
            files is None or has(files.repository, files.file)
        ):
            return format
    return None


def fim_prompt(
    tokenizer: Tokenizer,
    prefix: str,
    suffix: str,
    *,
    format: FimFormat | None = None,
    file: str | None = None,
    repository: str | None = None,
    context: Mapping[str, str] | None = None,
) -> FimPrompt:
    """Make the prompt for the text between two texts.

    All texts are plain text: special tokens in them are not tokens. A token that the tokenizer puts in
    front of every text comes first.

    Args:
        tokenizer: The model's.
        prefix: The text before the gap.
        suffix: The text after the gap.
        format: As `find_fim_format` gives it if None.
        file: Name of the file that has the gap, for models that were shown names of files.
        repository: Name of the repository, for models that were shown it.
        context: Other files of the repository, text by name, for models that were shown several.

    Raises:
        CapabilityError: The model has no tokens for this, or was not shown files.
    """
    chosen = format or find_fim_format(tokenizer)
    if chosen is None:
        raise CapabilityError(
            f"the tokenizer of {tokenizer.folder.name} has no tokens for filling in the middle (such as {_PIPED[0]}); "
            "use a code model that was trained for it"
        )
    shown = chosen.files
    if shown is None and (file is not None or repository is not None or context):
        raise CapabilityError(
            f"the model of {tokenizer.folder.name} was not trained with names of files; leave out file, repository and context"
        )
    texts = _PlainTexts(tokenizer, chosen)
    ids = _begin(tokenizer)
    if shown is not None:
        ids += _repository_ids(texts, shown, file=file, repository=repository, context=context or {})
        if file is not None and shown.name_in_prefix:
            prefix = f"{file}\n{prefix}"
    # The prefix begins a text, so it gets what a tokenizer puts in front of one; the suffix goes on with one.
    prefix_ids = [texts.token(chosen.prefix), *texts.encode(prefix)]
    suffix_ids = [texts.token(chosen.suffix), *texts.encode_middle(suffix)]
    ids += [*suffix_ids, *prefix_ids] if chosen.suffix_first else [*prefix_ids, *suffix_ids]
    ids += [] if chosen.middle is None else [texts.token(chosen.middle)]
    found = dict.fromkeys(tokenizer.token_to_id(end) for end in chosen.tokens)
    return FimPrompt(ids, tuple(end for end in found if end is not None))


def _repository_ids(
    texts: _PlainTexts,
    format: RepositoryFormat,
    *,
    file: str | None,
    repository: str | None,
    context: Mapping[str, str],
) -> list[int]:
    ids: list[int] = []
    if repository is not None:
        ids += [texts.token(format.repository), *texts.encode_middle(repository + format.end)]
    for name, text in context.items():
        ids += [texts.token(format.file), *texts.encode_middle(f"{name}\n{text}{format.end}")]
    if file is not None or context:
        ids.append(texts.token(format.file))
    if file is not None and not format.name_in_prefix:
        ids += texts.encode_middle(file + "\n")
    return ids


def _begin(tokenizer: Tokenizer) -> list[int]:
    ids = tokenizer.encode("", add_special_tokens=True)
    begin = None if tokenizer.bos_token is None else tokenizer.token_to_id(tokenizer.bos_token)
    return ids[:1] if begin is not None and ids[:1] == [begin] else []


class _PlainTexts:
    """Encodes texts in which no token of a format is one."""

    def __init__(self, tokenizer: Tokenizer, format: FimFormat) -> None:
        self._tokenizer = tokenizer
        # Some vocabularies do not call these tokens special: their texts are taken apart after one character.
        self._inside = re.compile(
            "|".join(f"(?<={re.escape(t[0])})(?={re.escape(t[1:])})" for t in format.tokens)
        )
        self._anchor = tokenizer.encode(_ANCHOR, parse_special=False)
        first = tokenizer.id_to_token(self._anchor[0]) if self._anchor else None
        self._adds_blank = (first or "").startswith("▁")

    def token(self, text: str) -> int:
        """Id of a token of the format."""
        token_id = self._tokenizer.token_to_id(text)
        if token_id is None:
            raise CapabilityError(
                f"the tokenizer of {self._tokenizer.folder.name} has no token {text!r}, which the format needs"
            )
        return token_id

    def encode(self, text: str) -> list[int]:
        """Ids of a text that begins one."""
        first, *others = self._inside.split(text)
        ids = self._tokenizer.encode(first, parse_special=False)
        return ids + [i for other in others for i in self._encode_middle(other)]

    def encode_middle(self, text: str) -> list[int]:
        """Ids of a text that goes on with one: without the blank that some tokenizers put in front of any text."""
        return [i for part in self._inside.split(text) for i in self._encode_middle(part)]

    def _encode_middle(self, text: str) -> list[int]:
        if self._adds_blank:
            ids = self._tokenizer.encode(_ANCHOR + text, parse_special=False)
            if ids[: len(self._anchor)] == self._anchor:
                return ids[len(self._anchor) :]
        return self._tokenizer.encode(text, parse_special=False)
