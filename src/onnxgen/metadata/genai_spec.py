"""A read ``genai_config.json`` to a `ModelSpec`."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from onnxgen.backends.base import DecoderModel, EmbeddingGraph
from onnxgen.errors import CapabilityError, MetadataError
from onnxgen.foundations.files import confined
from onnxgen.metadata.compatibility import REASONING_TOKENS, ROPE_SWITCH_LENGTHS, TOOL_CALL_TOKENS
from onnxgen.metadata.end_tokens import folder_end_ids
from onnxgen.metadata.genai_config import Model, read_genai_config
from onnxgen.metadata.genai_config_decoder import Decoder, names_by_role
from onnxgen.metadata.genai_config_run import Search
from onnxgen.metadata.genai_head import head_spec
from onnxgen.metadata.genai_session import providers_of, session_options_of
from onnxgen.metadata.manifest import rope_switch_length
from onnxgen.metadata.model_spec import ModelSpec, SearchDefaults, SpecialTokens

T = TypeVar("T")

_log = logging.getLogger(__name__)

_SHARED_ASSET = "sha256:"
# Sections of graphs that must run for the model to answer, and what a model that has them is.
_OTHER_GRAPHS = {
    "encoder": "an encoder-decoder model",
    "vision": "a multimodal model",
    "speech": "a multimodal model",
    "joiner": "a speech transducer",
    "vad": "a speech model",
    "moonshine": "a speech model",
    "audio_output": "a model that speaks",
}
# Of these, the ones that make features of images and sounds, which the tokens of a text do without.
_OF_FEATURES = ("vision", "speech")
# Sections of models that only propose tokens: answers are the same without them.
_DRAFTERS = ("dflash2", "dspark")


def spec_from_genai_config(folder: Path, path: Path, *, overlays: Sequence[str]) -> ModelSpec:
    """Read ``path``, the ``genai_config.json`` of ``folder``.

    Raises:
        MetadataError: It is wrong, or says less than a decoder needs.
        CapabilityError: The model needs more than a decoder.
    """
    read = read_genai_config(path, overlays=overlays)
    model = read.config.model
    _refuse_other_graphs(model, path)
    for name in _DRAFTERS:
        if getattr(model, name) is not None:
            _log.warning("%s: the %r section is not used yet; the decoder answers without drafts", path, name)
    vocab_size = _needed(model.vocab_size, "model.vocab_size", path)
    context_length = _needed(model.context_length, "model.context_length", path)
    tokenizer_dir = _tokenizer_dir(folder, model.tokenizer_dir, path)
    decoder = _decoder(folder, path, model, "decoder", document=read.document)
    return ModelSpec(
        folder=folder,
        model_type=model.type,
        decoder=replace(decoder, embedding=_embedding(folder, model, path)),
        head=head_spec(folder, path, model, decoder),
        context_length=context_length,
        vocab_size=vocab_size,
        tokens=_special_tokens(model, _other_ends(model, folder, tokenizer_dir, overlays)),
        search=_search_defaults(read.config.search, context_length),
        tokenizer_dir=tokenizer_dir,
        source=path,
        draft=None if model.draft is None else _decoder(folder, path, model, "draft", document=read.document),
        speculative=read.config.speculative,
        raw=read.document,
    )


def _decoder(
    folder: Path, path: Path, model: Model, section: str, *, document: Mapping[str, Any]
) -> DecoderModel:
    """The section ``decoder``, or another one that is like it."""
    decoder: Decoder = getattr(model, section)
    _refuse_other_decoders(decoder, section, path)
    context_length = model.context_length or 0
    switch = ROPE_SWITCH_LENGTHS.get(model.type)
    return DecoderModel(
        path=confined(
            folder, _needed(decoder.filename, f"model.{section}.filename", path), error=MetadataError
        ),
        inputs=names_by_role(decoder.inputs),
        outputs=names_by_role(decoder.outputs),
        num_layers=_stated(decoder.num_hidden_layers, section, "num_hidden_layers", document, path),
        vocab_size=model.vocab_size or 0,
        context_length=context_length,
        rope_switch_length=rope_switch_length(
            folder, otherwise=switch if switch is not None and context_length > switch else None
        ),
        session_options=session_options_of(folder, decoder.session_options),
        run_options=decoder.run_options or {},
        providers=providers_of(decoder.session_options, path),
    )


def _embedding(folder: Path, model: Model, path: Path) -> EmbeddingGraph | None:
    section = model.embedding
    if section is None:
        return None
    roles = {
        "inputs_embeds": section.outputs.inputs_embeds,
        "per_layer_inputs": section.outputs.per_layer_inputs,
    }
    own = names_by_role(model.decoder.inputs)
    return EmbeddingGraph(
        confined(folder, _needed(section.filename, "model.embedding.filename", path), error=MetadataError),
        section.inputs.input_ids,
        {name: own.get(role, role) for role, name in roles.items() if name},
    )


def _needed(value: T | None, name: str, path: Path) -> T:
    if not value:
        raise MetadataError(f"{path}: {name} is not set; a decoder cannot run without it")
    return value


def _stated(value: int, section: str, key: str, document: Mapping[str, Any], path: Path) -> int:
    """A size of a decoder that may be 0 (a decoder without a cache), but not be left out."""
    if not value and key not in document["model"][section]:
        raise MetadataError(f"{path}: model.{section}.{key} is missing; a decoder cannot run without it")
    return value


def _refuse_other_graphs(model: Model, path: Path) -> None:
    for name, kind in _OTHER_GRAPHS.items():
        if getattr(model, name) is None:
            continue
        if model.embedding is not None and name in _OF_FEATURES:
            _log.warning("%s: the %r section is not used yet; the model answers to text only", path, name)
        else:
            raise CapabilityError(
                f"{path}: this folder is {kind}; its {name!r} section is not supported yet, only decoders in one "
                "graph are"
            )


def _refuse_other_decoders(decoder: Decoder, section: str, path: Path) -> None:
    if decoder.pipeline:
        raise CapabilityError(
            f"{path}: this folder's {section} is a pipeline of {len(decoder.pipeline)} graphs; the section "
            f"'{section}.pipeline' is not supported yet, only decoders in one graph are"
        )
    window = decoder.sliding_window
    if window is not None and (window.slide_inputs or window.slide_key_value_cache):
        raise CapabilityError(
            f"{path}: this folder's {section} takes its prompt through a sliding window of {window.window_size} "
            f"tokens ('{section}.sliding_window' with slide_inputs or slide_key_value_cache); physically sliding KV "
            "caches are not supported yet"
        )


def _other_ends(model: Model, folder: Path, tokenizer_dir: Path, overlays: Sequence[str]) -> tuple[int, ...]:
    """Ids that end an answer by other files of the folder; none where the caller says which do."""
    if any('"eos_token_id"' in overlay for overlay in overlays):
        return ()
    folders = dict.fromkeys((folder, tokenizer_dir))
    return tuple(i for place in folders for i in folder_end_ids(place, vocab_size=model.vocab_size))


def _special_tokens(model: Model, other_ends: Sequence[int]) -> SpecialTokens:
    eos = tuple(dict.fromkeys((*model.eos_token_id, *other_ends)))
    eos = eos or (() if model.pad_token_id is None else (model.pad_token_id,))
    begin_tool, end_tool = _known_pair(TOOL_CALL_TOKENS, model)
    begin_reasoning, end_reasoning = _known_pair(REASONING_TOKENS, model)
    return SpecialTokens(
        bos=model.bos_token_id,
        eos=eos,
        pad=model.pad_token_id,
        begin_tool_call=begin_tool if model.bot_token_id is None else model.bot_token_id,
        end_tool_call=end_tool if model.eot_token_id is None else model.eot_token_id,
        begin_reasoning=begin_reasoning if model.bor_token_id is None else model.bor_token_id,
        end_reasoning=end_reasoning if model.eor_token_id is None else model.eor_token_id,
    )


def _known_pair(table: Mapping[str, tuple[int, int]], model: Model) -> tuple[int, int] | tuple[None, None]:
    pair = table.get(model.type)
    # models of a type may have other vocabularies; an id beyond this one's is no token
    return pair if pair is not None and max(pair) < (model.vocab_size or 0) else (None, None)


def _search_defaults(search: Search, context_length: int) -> SearchDefaults:
    shared: dict[str, Any] = {name: getattr(search, name) for name in SearchDefaults.__dataclass_fields__}
    shared["max_length"] = search.max_length or context_length
    return SearchDefaults(**shared)


def _tokenizer_dir(folder: Path, name: str, path: Path) -> Path:
    if not name:
        return folder
    if name.startswith(_SHARED_ASSET):
        raise CapabilityError(
            f"{path}: model.tokenizer_dir is {name!r}, a shared asset of a model package; packages are not supported"
        )
    found = confined(folder, name, error=MetadataError)
    if not found.is_dir():
        raise MetadataError(
            f"{path}: model.tokenizer_dir is {name!r}, and there is no such folder in {folder}"
        )
    return found
