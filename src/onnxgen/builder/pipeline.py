"""`build`: a checkpoint in, a model folder out, all or nothing."""

from __future__ import annotations

import dataclasses
import json
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onnxgen.builder.families import decoder_spec
from onnxgen.builder.formats import count_float_zero_points
from onnxgen.builder.genai_config import genai_config
from onnxgen.builder.inference_metadata import inference_metadata
from onnxgen.builder.manifest import manifest
from onnxgen.builder.options import BuildOptions
from onnxgen.builder.report import BuildReport
from onnxgen.builder.sizes import estimate_bytes, estimate_head_bytes
from onnxgen.builder.spec import DecoderSpec, LayerSpec
from onnxgen.builder.special_tokens import SpecialTokenIds, from_folder, from_gguf
from onnxgen.builder.tied import is_tied
from onnxgen.builder.tokenizer_files import (
    copy_tokenizer_files,
    make_tokenizer_files,
    named_tokens,
    tokenizer_facts,
)
from onnxgen.builder.weights import WeightSource
from onnxgen.errors import BuildError, CheckpointError, OptionError
from onnxgen.foundations.disk import require_disk_space, size_on_disk
from onnxgen.foundations.files import atomic_directory, is_present, read_json_object
from onnxgen.foundations.progress import SILENT, Progress
from onnxgen.metadata.end_tokens import folder_end_ids
from onnxgen.metadata.folder import GENAI_CONFIG, INFERENCE_METADATA, is_model_folder
from onnxgen.metadata.manifest import MANIFEST
from onnxgen.version import __version__

MODEL = "model.onnx"
DATA = "model.onnx.data"
HEAD_MODEL = "mtp.onnx"

_SPARE_BYTES = 64 << 20  # tokenizer files and what the file system needs itself


def build(
    source: str | Path | WeightSource,
    output: str | Path,
    *,
    options: BuildOptions = BuildOptions(),  # noqa: B008 - frozen
    progress: Progress = SILENT,
) -> BuildReport:
    """Build a model folder.

    Args:
        source: A Hugging Face folder, a GGUF file, or an open checkpoint.
        output: The folder to make. An existing one is replaced if it is empty or a model folder.
        options: How to build it.
        progress: Shows the work.

    Raises:
        ModelNotFoundError: There is no checkpoint at that path.
        UnsupportedArchitectureError: No family knows its architecture.
        CheckpointError: The checkpoint is broken or contradicts itself.
        BuildError: It cannot be turned into a model folder as asked, or there is no room for it.
        OptionError: An option does not fit the checkpoint.
    """
    from onnxgen.builder.sources import open_source

    started, output = time.perf_counter(), Path(output)
    _check_output(output)
    if not isinstance(source, (str, Path)):
        return _build(source, output, options, progress, started)
    opened = open_source(Path(source))
    try:
        return _build(opened, output, options, progress, started)
    finally:
        opened.close()


def _build(
    source: WeightSource, output: Path, options: BuildOptions, progress: Progress, started: float
) -> BuildReport:
    spec = _fitted(decoder_spec(source), options)
    asked, options = options, _with_accuracy(options, source)
    tied = is_tied(source, spec)
    needed = estimate_bytes(spec, options, tied=tied) + estimate_head_bytes(spec, options)
    require_disk_space(output, needed + _SPARE_BYTES, f"the {options.precision} model")
    with atomic_directory(output) as folder:
        generation = _write_tokenizer(source, folder)
        tokens = _special_tokens(source, generation, folder)
        tokens.check(spec.vocab, where=str(source.path))
        formats = _write_model(source, folder, spec, options, progress, tied=tied, total=needed)
        _write_json(
            folder / GENAI_CONFIG,
            genai_config(spec, options, tokens, generation, filename=MODEL, head_filename=HEAD_MODEL),
        )
        _write_yaml(
            folder / INFERENCE_METADATA,
            inference_metadata(spec, options, generation, tokenizer=tokenizer_facts(folder)),
        )
        content = manifest(
            folder,
            spec,
            asked,
            accuracy_level=options.accuracy_level if options.bits else None,
            source=source.path.resolve().name,
            formats=formats,
            tied=tied,
            version=__version__,
        )
        _write_json(folder / MANIFEST, content)
    return BuildReport(
        output=output,
        size_bytes=size_on_disk(output),
        seconds=time.perf_counter() - started,
        architecture=spec.architecture,
        precision=options.precision,
        formats=formats,
        float_zero_points=count_float_zero_points(formats),
    )


def _fitted(spec: DecoderSpec, options: BuildOptions) -> DecoderSpec:
    """The specification with the options that shorten it."""
    layers, context = len(spec.layers), spec.context
    if options.num_layers is not None:
        if options.num_layers > layers:
            raise OptionError(f"num_layers={options.num_layers}, but the model has {layers} layers")
        layers = options.num_layers
    if options.context_length is not None:
        if options.context_length > context:
            raise OptionError(f"context_length={options.context_length} is longer than the model's {context}")
        context = options.context_length
    # a head guesses from what the last layer gives
    mtp = spec.mtp if layers == len(spec.layers) else None
    return dataclasses.replace(spec, layers=spec.layers[:layers], context=context, mtp=mtp)


def _with_accuracy(options: BuildOptions, source: WeightSource) -> BuildOptions:
    """The options with the accuracy level that an unset one stands for."""
    from onnxgen.builder.gguf.blocks import BLOCK_FORMATS

    if options.accuracy_level is not None:
        return options
    exact = (
        options.bits is not None
        and not options.requantize
        and any(
            stored in BLOCK_FORMATS and BLOCK_FORMATS[stored].float_zero_points
            for stored in map(source.stored_type, source.names)
        )
    )
    return dataclasses.replace(options, accuracy_level=0 if exact else 4)


def _write_model(
    source: WeightSource,
    folder: Path,
    spec: DecoderSpec,
    options: BuildOptions,
    progress: Progress,
    *,
    tied: bool,
    total: int,
) -> Mapping[str, int]:
    import onnx_ir as ir

    from onnxgen.builder.data_file import DataFile
    from onnxgen.builder.emitter import emit_decoder
    from onnxgen.builder.matrices import Matrices
    from onnxgen.builder.mtp_source import MtpSource
    from onnxgen.builder.shared_data import SharedData

    with (
        progress.start(f"Building {source.path.name} ({options.precision})", total=total) as task,
        DataFile(folder / DATA, task=task) as data,
    ):
        model, formats = emit_decoder(
            spec, Matrices(source, options), data, options, tied=tied, producer_version=__version__
        )
        if spec.mtp is not None:
            head, more = emit_decoder(
                dataclasses.replace(spec, layers=(LayerSpec(spec.layers[0].rope),)),
                Matrices(MtpSource(source, spec.mtp), options),
                SharedData(data, ("model.embed_tokens", "lm_head")),
                options,
                tied=tied,
                producer_version=__version__,
                head=spec.mtp,
            )
            (folder / HEAD_MODEL).write_bytes(ir.to_proto(head).SerializeToString(deterministic=True))
            formats = Counter(formats) + Counter(more)
    (folder / MODEL).write_bytes(ir.to_proto(model).SerializeToString(deterministic=True))
    return formats


def _write_tokenizer(source: WeightSource, folder: Path) -> Mapping[str, Any]:
    """Write the tokenizer files and return the generation configuration."""
    if source.metadata is not None:
        make_tokenizer_files(source.metadata, folder)
        generation = from_gguf(source.metadata, where=str(source.path)).to_json()
        _write_json(folder / "generation_config.json", generation)
        return generation
    copy_tokenizer_files(source.path, folder)
    file = folder / "generation_config.json"
    return read_json_object(file, error=CheckpointError) if file.exists() else {}


def _special_tokens(source: WeightSource, generation: Mapping[str, Any], folder: Path) -> SpecialTokenIds:
    if source.metadata is not None:
        return from_gguf(source.metadata, where=str(source.path))
    named = {name: id_ for name, (_, id_) in named_tokens(folder).items()}
    ends = folder_end_ids(folder, error=CheckpointError)
    return from_folder(source.config, generation, named, where=str(source.path), other_ends=ends)


def _check_output(output: Path) -> None:
    if not is_present(output):
        above = next(folder for folder in output.absolute().parents if is_present(folder))
        if not above.is_dir():
            raise BuildError(f"{output} cannot be made: {above} is not a folder")
        return
    if not output.is_dir():
        raise BuildError(f"{output} is a file; name a folder for the model")
    if any(output.iterdir()) and not (is_model_folder(output) or (output / MANIFEST).is_file()):
        raise BuildError(
            f"{output} holds files and is not a model folder; name another folder, or empty it first"
        )


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _write_yaml(path: Path, content: Mapping[str, Any]) -> None:
    import yaml

    text = yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True)
    path.write_text(text, encoding="utf-8")
