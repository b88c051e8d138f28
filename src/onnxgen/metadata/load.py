"""A model folder to a `ModelSpec`, from whichever metadata file it has."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from onnxgen.backends.base import DecoderModel, ProviderSpec
from onnxgen.errors import CapabilityError, MetadataError, ModelNotFoundError, OptionError
from onnxgen.foundations.files import check_file, is_present
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.metadata.capabilities import check_capabilities
from onnxgen.metadata.folder import GENAI_CONFIG, INFERENCE_METADATA, find_inference_metadata
from onnxgen.metadata.genai_spec import spec_from_genai_config
from onnxgen.metadata.inference_file import required_capabilities
from onnxgen.metadata.model_spec import ModelSpec

_NO_DATA: Mapping[str, bytes] = MappingProxyType({})


def load_model_spec(
    folder: Path,
    *,
    overlays: Sequence[str] = (),
    model_data: Mapping[str, bytes] = _NO_DATA,
    providers: tuple[ProviderSpec, ...] | None = None,
) -> ModelSpec:
    """Read what a model folder means.

    ``genai_config.json`` goes first; a folder without one is read from ``inference_metadata.yaml``.
    Capabilities that the latter requires are checked in both cases.

    Args:
        folder: The model folder.
        overlays: JSON documents merged over ``genai_config.json``, in order.
        model_data: File name to content, for an ONNX file that is not read from disk.
        providers: Execution providers in place of the folder's own; None keeps those.

    Raises:
        ModelNotFoundError: There is no such folder, or it is no model folder.
        MetadataError: The metadata is wrong; the message has the file and the path of keys.
        ModelFileError: The ONNX file is missing, empty or a Git LFS pointer.
        CapabilityError: The model needs something that we cannot do.
        OptionError: ``model_data`` names a file that the model does not use.
    """
    if not folder.is_dir():
        raise ModelNotFoundError(_no_folder(folder))
    folder = folder.absolute()  # so that the working directory may change later
    genai_config, metadata = folder / GENAI_CONFIG, find_inference_metadata(folder)
    if is_present(genai_config):
        if metadata is not None:
            check_capabilities(required_capabilities(metadata), source=metadata)
        spec = spec_from_genai_config(folder, genai_config, overlays=overlays)
    elif metadata is None:
        raise _not_a_model(folder)
    elif overlays:
        raise MetadataError(f"{metadata}: an overlay changes {GENAI_CONFIG}, which this folder does not have")
    else:
        from onnxgen.metadata.inference_metadata import spec_from_inference_metadata

        spec = spec_from_inference_metadata(folder, metadata)
        check_capabilities(spec.required_capabilities, source=metadata)
    return _with_data_and_providers(spec, model_data, providers)


def _with_data_and_providers(
    spec: ModelSpec, model_data: Mapping[str, bytes], providers: tuple[ProviderSpec, ...] | None
) -> ModelSpec:
    decoder = spec.decoder
    name = decoder.path.relative_to(spec.folder).as_posix()
    for given in model_data:
        if given != name:
            raise OptionError(
                f"{spec.source}: content was given for {given!r}; the model's only file is {name!r}"
                f"{did_you_mean(given, [name])}"
            )
    if name not in model_data:
        check_file(decoder.path)
    spec = dataclasses.replace(spec, decoder=dataclasses.replace(decoder, model_bytes=model_data.get(name)))
    return spec if providers is None else _with_providers(spec, providers)


def _with_providers(spec: ModelSpec, providers: tuple[ProviderSpec, ...]) -> ModelSpec:
    def changed(model: DecoderModel) -> DecoderModel:
        return dataclasses.replace(model, providers=providers)

    return dataclasses.replace(
        spec,
        decoder=changed(spec.decoder),
        draft=None if spec.draft is None else changed(spec.draft),
        head=None
        if spec.head is None
        else dataclasses.replace(spec.head, decoder=changed(spec.head.decoder)),
    )


def _no_folder(folder: Path) -> str:
    if folder.is_file():
        return f"{folder} is a file; a model is a folder with a {GENAI_CONFIG} and an ONNX file"
    return f"there is no folder {folder}"


def _not_a_model(folder: Path) -> Exception:
    if (folder / "manifest.json").is_file():
        return CapabilityError(
            f"{folder} is a model package (manifest.json); packages are not supported, name the folder of one of "
            f"its variants that has a {GENAI_CONFIG}"
        )
    looks = (
        f"{folder} is no model folder: it has no {GENAI_CONFIG} and no {INFERENCE_METADATA}. A model folder has one "
        "of them, an ONNX file, and the tokenizer's files"
    )
    ggufs = sorted(folder.glob("*.gguf"))
    if (folder / "config.json").is_file() and any(folder.glob("*.safetensors")):
        return ModelNotFoundError(
            f"{looks}. This is a checkpoint: run 'onnxgen build {folder} -o OUTPUT' first"
        )
    if ggufs:
        return ModelNotFoundError(
            f"{looks}. It has a checkpoint, {ggufs[0].name}: run 'onnxgen build {ggufs[0]} -o OUTPUT' first"
        )
    return ModelNotFoundError(looks)
