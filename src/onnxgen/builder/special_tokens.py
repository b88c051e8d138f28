"""Special token ids of a checkpoint, from everything in it that names some."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from onnxgen.errors import CheckpointError
from onnxgen.metadata.end_tokens import turn_ends
from onnxgen.preprocess.gguf_vocabulary import ID_KEYS, TOKENS_KEY, TYPES_KEY, TokenType


@dataclass(frozen=True, slots=True)
class SpecialTokenIds:
    """Ids with a meaning.

    Attributes:
        bos: Begin of sequence, or None.
        eos: Every id that ends an answer; the first is the one a text ends with.
        pad: Padding.
    """

    bos: int | None
    eos: tuple[int, ...]
    pad: int

    def to_json(self) -> dict[str, Any]:
        """The ids with the keys of ``generation_config.json``."""
        named = {"bos_token_id": self.bos, "eos_token_id": list(self.eos), "pad_token_id": self.pad}
        return {key: value for key, value in named.items() if value is not None}

    def check(self, vocab: int, *, where: str) -> None:
        """Refuse ids that the model has no logits for.

        Raises:
            CheckpointError: Naming the id and the size of the vocabulary.
        """
        named = (
            ("bos_token_id", self.bos),
            *(("eos_token_id", i) for i in self.eos),
            ("pad_token_id", self.pad),
        )
        for name, id_ in named:
            if id_ is not None and not 0 <= id_ < vocab:
                raise CheckpointError(
                    f"{where}: {name} {id_} is outside the model's vocabulary of {vocab} tokens; "
                    "mend it in generation_config.json or config.json"
                )


def from_folder(
    config: Mapping[str, Any],
    generation: Mapping[str, Any],
    tokenizer: Mapping[str, int],
    *,
    where: str,
    other_ends: Sequence[int] = (),
) -> SpecialTokenIds:
    """Ids of a Hugging Face folder.

    Args:
        config: ``config.json``; values of a decoder inside a larger model stand under ``text_config``.
        generation: ``generation_config.json``, which goes first.
        tokenizer: Ids of the tokenizer's named tokens, such as ``eos_token``.
        where: The folder, for messages.
        other_ends: Further ids that end an answer, as the chat template shows them.

    Raises:
        CheckpointError: No end of sequence is named, or an id is not a number.
    """
    nested = config.get("text_config")
    text = cast("Mapping[str, Any]", nested) if isinstance(nested, Mapping) else {}
    sources = (generation, config, text)

    def first(key: str, token: str) -> int | None:
        for source in sources:
            ids = _ids(source.get(key), key, where)
            if ids:
                return ids[0]
        return tokenizer.get(token)

    eos = [id_ for source in sources for id_ in _ids(source.get("eos_token_id"), "eos_token_id", where)]
    # A chat model ends its turns with the tokenizer's end, even where the configuration names another.
    eos += [tokenizer["eos_token"]] if "eos_token" in tokenizer else []
    eos += other_ends
    return _checked(first("bos_token_id", "bos_token"), eos, first("pad_token_id", "pad_token"), where)


def from_gguf(metadata: Mapping[str, Any], *, where: str) -> SpecialTokenIds:
    """Ids of a GGUF file's metadata.

    Raises:
        CheckpointError: No end of sequence is named.
    """

    def named(name: str) -> list[int]:
        return _ids(metadata.get(ID_KEYS[name]), ID_KEYS[name], where)

    eos = [*named("eos_token"), *named("eot_token"), *named("eom_token")]
    control = {
        token: index
        for index, (token, kind) in enumerate(
            zip(metadata.get(TOKENS_KEY, ()), metadata.get(TYPES_KEY, ()), strict=False)
        )
        if int(kind) == TokenType.CONTROL
    }
    # GGUF files often name only the end of a text.
    ends = {*turn_ends(" ".join(control)), "<|endoftext|>"}
    eos += sorted(index for token, index in control.items() if token in ends)
    bos, pad = named("bos_token"), named("pad_token")
    return _checked(bos[0] if bos else None, eos, pad[0] if pad else None, where)


def _checked(bos: int | None, eos: Iterable[int], pad: int | None, where: str) -> SpecialTokenIds:
    unique = tuple(dict.fromkeys(eos))
    if not unique:
        raise CheckpointError(
            f"{where}: no end-of-sequence token; set 'eos_token_id' in config.json or generation_config.json"
        )
    return SpecialTokenIds(bos, unique, unique[0] if pad is None else pad)


def _ids(value: Any, key: str, where: str) -> list[int]:
    if value is None:
        return []
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    if any(isinstance(item, bool) or not hasattr(item, "__index__") or int(item) < 0 for item in items):
        raise CheckpointError(f"{where}: {key!r} is {value!r}, expected a token id or a list of them")
    return [int(item) for item in items]
