"""`Tokenizer` and `TokenizerStream`: text to ids and back, by onnxruntime-genai's names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from onnxgen.errors import CapabilityError, ChatTemplateError, OptionError, TokenIdError
from onnxgen.facade.config import Config
from onnxgen.facade.model import Model
from onnxgen.facade.tensor import Tensor
from onnxgen.foundations.json_text import parse_json
from onnxgen.foundations.suggest import did_you_mean

if TYPE_CHECKING:
    from onnxgen.preprocess.chat_template import ChatTemplate
    from onnxgen.preprocess.detokenizer import IncrementalDetokenizer

_OPTIONS = ("add_special_tokens", "skip_special_tokens", "chat_template_kwargs")
_WORDS = {"true": True, "1": True, "false": False, "0": False}


class Tokenizer:
    """Text to token ids and back. May be used from several threads, `update_options` aside.

    Args:
        source: A `Model`, a `Config`, or the path of a model folder.

    Raises:
        TokenizerError: ``tokenizer.json`` is missing, broken or of an unknown kind.
    """

    def __init__(self, source: Model | Config | str | os.PathLike[str]) -> None:
        from onnxgen.preprocess.tokenizer import Tokenizer as TextTokenizer

        config = source if isinstance(source, (Model, Config)) else Config(source)
        self._spec = config.spec
        self._text = TextTokenizer.from_folder(
            self._spec.tokenizer_dir, model_vocab_size=self._spec.vocab_size
        )
        self._add_special_tokens = False
        self._skip_special_tokens = True
        self._template_variables: dict[str, Any] = {}
        self._template: tuple[str | None, ChatTemplate] | None = None

    @property
    def bos_token_id(self) -> int:
        """The token that begins a sequence."""
        return self._defined("bos_token_id", self._spec.tokens.bos)

    @property
    def eos_token_ids(self) -> npt.NDArray[np.int32]:
        """Tokens that end an answer, int32 ``[n]``."""
        return np.array(self._spec.tokens.eos, np.int32)

    @property
    def pad_token_id(self) -> int:
        """Padding."""
        return self._defined("pad_token_id", self._spec.tokens.pad)

    @property
    def bot_token_id(self) -> int:
        """The token that opens a tool call."""
        return self._defined("bot_token_id", self._spec.tokens.begin_tool_call)

    @property
    def eot_token_id(self) -> int:
        """The token that closes a tool call."""
        return self._defined("eot_token_id", self._spec.tokens.end_tool_call)

    @property
    def bor_token_id(self) -> int:
        """The token that opens a reasoning span."""
        return self._defined("bor_token_id", self._spec.tokens.begin_reasoning)

    @property
    def eor_token_id(self) -> int:
        """The token that closes a reasoning span."""
        return self._defined("eor_token_id", self._spec.tokens.end_reasoning)

    def update_options(self, **options: str | bool) -> None:
        """Change options; each may be a text, as onnxruntime-genai has it, or a bool.

        Args:
            options: ``add_special_tokens`` (default false): `encode` adds what the tokenizer puts around a
                sequence. ``skip_special_tokens`` (default true): decoding leaves them out.
                ``chat_template_kwargs``: a JSON object with variables for chat templates.

        Raises:
            OptionError: An option is unknown or has no such value. Nothing was changed.
        """
        changes = {name: _option(name, value) for name, value in options.items()}
        for name, value in changes.items():
            if name == "add_special_tokens":
                self._add_special_tokens = bool(value)
            elif name == "skip_special_tokens":
                self._skip_special_tokens = bool(value)
            else:
                self._template_variables = cast("dict[str, Any]", value)

    def encode(self, text: str) -> npt.NDArray[np.int32]:
        """Token ids of a text, int32 ``[n]``."""
        return np.array(self._text.encode(text, add_special_tokens=self._add_special_tokens), np.int32)

    def encode_batch(self, texts: Sequence[str]) -> Tensor:
        """Token ids of several texts, int32 ``[texts, longest]``, padded on the right."""
        if not texts:
            raise OptionError("encode_batch needs at least one text, got none")
        rows = self._text.encode_batch(texts, add_special_tokens=self._add_special_tokens)
        longest = max(len(row) for row in rows)
        ragged = any(len(row) != longest for row in rows)
        ids = np.full((len(rows), longest), self.pad_token_id if ragged else 0, np.int32)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
        return Tensor(ids)

    def decode(self, ids: npt.ArrayLike | Tensor) -> str:
        """Text of token ids ``[n]``; a single id is one token.

        Raises:
            TokenIdError: An id is no integer or outside the vocabulary.
        """
        flat = np.atleast_1d(_integers(ids))
        return self._text.decode(flat.tolist(), skip_special_tokens=self._skip_special_tokens)

    def decode_batch(self, ids: Tensor | npt.ArrayLike) -> list[str]:
        """Texts of token ids ``[texts, longest]``."""
        rows = np.atleast_2d(_integers(ids)).tolist()
        return self._text.decode_batch(rows, skip_special_tokens=self._skip_special_tokens)

    def to_token_id(self, token: str) -> int:
        """Id of a token by its exact text.

        Raises:
            OptionError: The vocabulary has no such token.
        """
        token_id = self._text.token_to_id(token)
        if token_id is None:
            raise OptionError(
                f"{token!r} is not a token of {self._text.folder}; encode() splits texts into tokens"
            )
        return token_id

    def apply_chat_template(
        self,
        messages: str | Sequence[Mapping[str, Any]],
        *,
        template_str: str | None = None,
        tools: str | Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
    ) -> str:
        """The prompt for a conversation.

        Args:
            messages: A list of messages, or the same as JSON text.
            template_str: A Jinja template; None or an empty text takes the model folder's.
            tools: A list of tool definitions, or the same as JSON text.
            add_generation_prompt: End with what opens the assistant's turn.

        Raises:
            ChatTemplateError: There is no template, or it fails; or ``messages`` or ``tools`` are no lists.
        """
        from onnxgen.preprocess.chat_template import ChatTemplate

        # A template that is used again was compiled and looked at already.
        key = template_str or None
        kept = self._template
        if kept is None or kept[0] != key:
            kept = self._template = key, ChatTemplate.require(self._text.folder, override=key)
        return kept[1].render(
            _list(messages, "messages"),
            tools=_list(tools, "tools") if tools else None,
            add_generation_prompt=add_generation_prompt,
            **self._template_variables,
        )

    def create_stream(self) -> TokenizerStream:
        """A decoder for one stream of tokens."""
        from onnxgen.preprocess.detokenizer import IncrementalDetokenizer

        return TokenizerStream(
            IncrementalDetokenizer(self._text, skip_special_tokens=self._skip_special_tokens)
        )

    def _defined(self, name: str, token_id: int | None) -> int:
        if token_id is None:
            raise CapabilityError(f"{name} is not defined for this model; {self._spec.source} can set it")
        return token_id


class TokenizerStream:
    """Decodes one stream of tokens, holding back characters until they are complete."""

    def __init__(self, detokenizer: IncrementalDetokenizer) -> None:
        self._detokenizer = detokenizer

    def decode(self, token: int) -> str:
        """The text that a token adds, which may be empty.

        Raises:
            TokenIdError: The id is outside the vocabulary.
        """
        return self._detokenizer.push(int(token))

    def flush(self) -> str:
        """What is held back, at the end of the stream."""
        return self._detokenizer.flush()


def _integers(ids: npt.ArrayLike | Tensor) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.asarray(ids)
    if array.size and array.dtype.kind not in "iu":
        raise TokenIdError(f"token ids must be integers, got {ids!r:.60}")
    return array


def _option(name: str, value: object) -> object:
    if name not in _OPTIONS:
        raise OptionError(f"unknown tokenizer option {name!r}{did_you_mean(name, _OPTIONS)}")
    if name == "chat_template_kwargs":
        variables = parse_json(value, source=name, error=OptionError) if isinstance(value, str) else value
        if not isinstance(variables, Mapping):
            raise OptionError(f"chat_template_kwargs must be a JSON object, got {value!r}")
        return dict(cast("Mapping[str, Any]", variables))
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _WORDS:
        return _WORDS[value.lower()]
    raise OptionError(f"{name} must be 'true' or 'false', got {value!r}")


def _list(value: object, what: str) -> list[Any]:
    parsed = parse_json(value, source=what, error=OptionError) if isinstance(value, str) else value
    if not isinstance(parsed, Sequence) or isinstance(parsed, (str, bytes)):
        raise ChatTemplateError(f"{what} must be a list, got {type(parsed).__name__}")
    return list(cast("Sequence[Any]", parsed))
