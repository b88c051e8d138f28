"""``inference_metadata.yaml``: the ONNX inference metadata standard's description of a model, read strictly.

Read are decoders in one graph. The file beside the metadata that holds it is ``model.onnx``, as the
standard has no key for it outside of pipelines.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from onnxgen.backends.base import DecoderModel
from onnxgen.errors import CapabilityError, MetadataError
from onnxgen.foundations.files import confined
from onnxgen.metadata.document import Place, read_document
from onnxgen.metadata.end_tokens import folder_end_ids
from onnxgen.metadata.inference_file import metadata_document
from onnxgen.metadata.inference_schema import InferenceMetadata, ModelIo, TokenizerFacts
from onnxgen.metadata.layer_names import layer_names
from onnxgen.metadata.manifest import rope_switch_length
from onnxgen.metadata.model_spec import ModelSpec, SearchDefaults, SpecialTokens

_MODEL_FILE = "model.onnx"


def read_inference_metadata(path: Path) -> tuple[InferenceMetadata, dict[str, Any]]:
    """Read a metadata file; returns it and the document.

    Raises:
        MetadataError: The file is wrong; the message has the path of keys.
    """
    document = metadata_document(path)
    return read_document(InferenceMetadata, document, Place(path)), document


def spec_from_inference_metadata(folder: Path, path: Path) -> ModelSpec:
    """Read ``path``, the metadata file of ``folder``.

    Raises:
        MetadataError: It is wrong, or says less than a decoder needs.
        CapabilityError: It describes more than a decoder.
    """
    metadata, document = read_inference_metadata(path)
    _refuse_more_than_a_decoder(metadata, path)
    model, place = metadata.model, Place(path, "model")
    for name in ("max_sequence_length", "vocab_size"):
        if getattr(model, name) is None:
            raise place.key(name).error("is missing; a decoder cannot run without it")
    context_length, vocab_size = cast("int", model.max_sequence_length), cast("int", model.vocab_size)
    inputs, outputs, num_layers = _names(model.io, place.key("io"))
    return ModelSpec(
        folder=folder,
        model_type="decoder",
        decoder=DecoderModel(
            path=confined(folder, _MODEL_FILE, error=MetadataError),
            inputs=inputs,
            outputs=outputs,
            num_layers=num_layers,
            vocab_size=vocab_size,
            context_length=context_length,
            rope_switch_length=rope_switch_length(folder, otherwise=None),
        ),
        context_length=context_length,
        vocab_size=vocab_size,
        tokens=_special_tokens(folder, metadata.package.tokenizer, vocab_size),
        search=_search_defaults(metadata, context_length),
        tokenizer_dir=_tokenizer_dir(folder, metadata.package.tokenizer),
        source=path,
        required_capabilities=metadata.required_capabilities,
        raw=document,
    )


def _refuse_more_than_a_decoder(metadata: InferenceMetadata, path: Path) -> None:
    for name in ("pipeline", "adapters", "speculative", "preprocessing"):
        if getattr(metadata, name) is not None:
            raise _not_yet(path, f"the section {name!r}")
    for name, profile in metadata.profiles.items():
        if not isinstance(profile, dict) or cast("dict[str, Any]", profile).get("requirement") != "ignorable":
            raise _not_yet(path, f"the profile {name!r} (not marked 'requirement: ignorable')")
    if metadata.generation.overrides:
        raise _not_yet(path, "'generation.overrides'")
    if metadata.model.sharding is not None:
        raise _not_yet(path, "'model.sharding'")
    needs = metadata.hardware_requirements
    if needs is not None and (needs.min_tp_degree or 1) > 1:
        raise _not_yet(path, f"a model split over {needs.min_tp_degree} devices ('hardware_requirements')")
    io = metadata.model.io
    for name in (
        "inputs_embeds_input",
        "encoder_hidden_states_input",
        "audio_features_input",
        "cross_kv_inputs",
        "cross_kv_outputs",
        "optional_inputs",
        "state_pairs",
        "static_cache",
    ):
        if getattr(io, name):
            raise _not_yet(path, f"'model.io.{name}'")
    for name, expected in (
        ("sequence_source", ("token_ids",)),
        ("kv_layout", ("head_major_bnsh",)),
        ("kv_ownership", ("owned",)),
        ("aliasing", ("permitted", "required")),
    ):
        if getattr(io, name) not in expected:
            raise _not_yet(path, f"'model.io.{name}: {getattr(io, name)}'")


def _not_yet(path: Path, what: str) -> CapabilityError:
    return CapabilityError(f"{path}: {what} is not supported yet; supported are decoders in one graph")


def _names(io: ModelIo, place: Place) -> tuple[dict[str, str], dict[str, str], int]:
    if io.kv_inputs is None or io.kv_outputs is None:
        missing = "kv_inputs" if io.kv_inputs is None else "kv_outputs"
        raise place.key(missing).error("is missing; it names the cache layer by layer")
    past = layer_names(io.kv_inputs, place.key("kv_inputs"))
    present = layer_names(io.kv_outputs, place.key("kv_outputs"))
    if (past.num_layers, past.combined is None) != (present.num_layers, present.combined is None):
        raise place.key("kv_outputs").error(
            f"names {present.num_layers} layers, kv_inputs names {past.num_layers}, and both must hold keys and "
            "values alike"
        )
    inputs = {
        "input_ids": io.token_input or "input_ids",
        "attention_mask": io.attention_mask_input,
        "position_ids": io.position_ids_input,
        "past_key_names": past.key,
        "past_value_names": past.value,
        "past_names": past.combined,
    }
    outputs = {
        "logits": io.logits_output or "logits",
        "hidden_states": io.hidden_output,
        "present_key_names": present.key,
        "present_value_names": present.value,
        "present_names": present.combined,
    }
    return _given(inputs), _given(outputs), past.num_layers


def _given(names: dict[str, str | None]) -> dict[str, str]:
    return {role: name for role, name in names.items() if name}


def _search_defaults(metadata: InferenceMetadata, context_length: int) -> SearchDefaults:
    defaults = metadata.generation.defaults
    said: dict[str, Any] = {f.name: getattr(defaults, f.name) for f in fields(defaults)}
    given = {name: value for name, value in said.items() if value is not None}
    configurable = metadata.model.runtime_configurable
    if configurable is not None and configurable.chunked_prefill is not None:
        given["chunk_size"] = configurable.chunked_prefill.chunk_size
    given["max_length"] = given.get("max_length") or context_length
    given["past_present_share_buffer"] = True  # models whose aliasing is forbidden were refused
    return SearchDefaults(**given)


def _special_tokens(folder: Path, tokenizer: TokenizerFacts | None, vocab_size: int) -> SpecialTokens:
    named = tokenizer.special_tokens if tokenizer else {}

    def id_of(name: str) -> int | None:
        token = named.get(f"{name}_token") or named.get(name)
        return token.id if token else None

    eos, pad = id_of("eos"), id_of("pad")
    ends = [*([] if eos is None else [eos]), *folder_end_ids(folder, vocab_size=vocab_size)]
    if not ends and pad is not None:
        ends = [pad]
    return SpecialTokens(bos=id_of("bos"), eos=tuple(dict.fromkeys(ends)), pad=pad)


def _tokenizer_dir(folder: Path, tokenizer: TokenizerFacts | None) -> Path:
    """The folder of the tokenizer's first file; all its files must be there."""
    found = [
        confined(folder, artifact.location, error=MetadataError)
        for artifact in (tokenizer.artifacts if tokenizer else ())
    ]
    folders = {path.parent for path in found}
    if len(folders) > 1:
        raise MetadataError(
            f"{folder}: package.tokenizer.artifacts lie in {len(folders)} folders; they must lie in one"
        )
    return folders.pop() if folders else folder
