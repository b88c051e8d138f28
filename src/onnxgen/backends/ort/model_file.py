"""Reads an ONNX file for rewriting, after checking every file that it refers to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnxgen.backends.base import DecoderModel
from onnxgen.backends.ort.external_files import ExternalFile, describe
from onnxgen.errors import CapabilityError, ModelFileError
from onnxgen.foundations.files import check_file, confined

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A parsed model and the folder that its external data is named from.

    Attributes:
        path: The ONNX file, for messages.
        model: The parsed model; tensors outside the file stay there.
        data_folder: Locations of external data in ``model`` are relative to this folder.
        external_files: That data.
        embeddings: Name of the value that a graph in front of the decoder makes of ids; None without such a graph.
    """

    path: Path
    model: ir.Model
    data_folder: Path
    external_files: tuple[ExternalFile, ...]
    embeddings: str | None = None


def read_content(model: DecoderModel) -> bytes:
    """The content of a model's file.

    Raises:
        ModelFileError: It is missing, empty or only a pointer to the content.
    """
    return model.model_bytes if model.model_bytes is not None else check_file(model.path).read_bytes()


def read_embedding(model: DecoderModel) -> bytes:
    """The content of the graph in front of a decoder; nothing without one.

    Raises:
        ModelFileError: It is missing, empty or only a pointer to the content.
    """
    return b"" if model.embedding is None else check_file(model.embedding.path).read_bytes()


def parse_decoder(model: DecoderModel, content: bytes) -> ModelFile:
    """Parse a decoder, with the graph in front of it if there is one: they become one graph.

    Args:
        model: The decoder.
        content: The content of its own file.

    Raises:
        ModelFileError: A file is missing or broken, or the two do not fit.
        CapabilityError: They cannot be one graph.
    """
    from onnxgen.backends.ort.graph_edit.join_embedding import join_embedding

    file = parse_model(content, model.path)
    if model.embedding is None:
        return file
    front = parse_model(read_embedding(model), model.embedding.path)
    if front.data_folder != file.data_folder and front.external_files and file.external_files:
        raise CapabilityError(
            f"{model.path} and {model.embedding.path} keep their weights in different folders; put both into one"
        )
    names = join_embedding(
        file.model,
        front.model,
        ids=(model.embedding.input_ids, model.inputs.get("input_ids", "input_ids")),
        joined=model.embedding.outputs,
    )
    return replace(
        file,
        data_folder=front.data_folder if front.external_files else file.data_folder,
        external_files=(*file.external_files, *front.external_files),
        embeddings=names.get(model.inputs.get("inputs_embeds", "inputs_embeds")),
    )


def parse_model(content: bytes, path: Path) -> ModelFile:
    """Parse a model and check its external data.

    Args:
        content: The ONNX file's content.
        path: Where it is, or would be; external data is looked for beside it.

    Raises:
        ModelFileError: The content is cut short or not ONNX; or external data is missing, shorter than the
            model says, or outside the model folder.
    """
    import onnx
    import onnx_ir as ir
    from google.protobuf.message import DecodeError

    try:
        stored = onnx.load_model_from_string(content)
    except DecodeError as cause:
        raise ModelFileError(f"{path} is not an ONNX file or was cut short: {cause}") from cause
    for tensor in stored.graph.initializer:
        _check_entries(path, tensor)
    try:
        parsed = ir.from_proto(stored)
        parsed.graph.sort()  # a cycle is a ValueError
    except (ir.serde.SerdeError, ValueError, TypeError, KeyError, NotImplementedError) as cause:
        raise ModelFileError(f"{path} is not a graph that can be read: {_first_cause(cause)}") from cause
    if not parsed.graph.outputs:
        raise ModelFileError(f"{path} has no outputs; it is not a decoder")
    files = _check_external_data(parsed, path)
    return ModelFile(path, parsed, _anchor(parsed, path.parent, files), tuple(files.values()))


def _check_entries(path: Path, tensor: onnx.TensorProto) -> None:
    """Refuse places in a file that are not written as whole numbers, which the parser's message would not name."""
    for entry in tensor.external_data:
        if entry.key in ("offset", "length") and not (entry.value.isascii() and entry.value.isdecimal()):
            raise ModelFileError(
                f"{path}: tensor {tensor.name!r} has {entry.key} {entry.value!r} in its file of external data; it "
                "must be a whole number"
            )


def _first_cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error) or type(error).__name__


def _check_external_data(model: ir.Model, path: Path) -> dict[str, ExternalFile]:
    """Check every tensor outside the file; returns the files by location."""
    files: dict[str, ExternalFile] = {}
    for name, tensor in _external_tensors(model):
        location = str(tensor.location)
        if location not in files:
            data = confined(path.parent, location, where=f"{path}: external data of tensor {name!r}")
            files[location] = describe(check_file(data))
        _check_extent(path, name, tensor, files[location])
    return files


def _anchor(model: ir.Model, folder: Path, files: Mapping[str, ExternalFile]) -> Path:
    """The folder that locations of external data are relative to; renames them where that is not their own.

    Hub caches keep files in ``blobs`` and fill the model folder with links to them. ONNX Runtime refuses
    data whose real path leaves the folder, so such locations are named relative to the cache entry.
    """
    root = folder.resolve()
    if all(f.target.is_relative_to(root) for f in files.values()):
        return root
    root = next(folder.parent for folder in root.parents if folder.name == "snapshots")
    for value in _values_with_external_data(model):
        value.const_value = _moved(value.const_value, files, root)
    return root


def _check_extent(model_path: Path, name: str, tensor: ir.ExternalTensor, file: ExternalFile) -> None:
    import onnx_ir as ir

    if tensor.dtype == ir.DataType.STRING or any(isinstance(dim, int) and dim < 0 for dim in tensor.shape):
        raise ModelFileError(
            f"{model_path}: tensor {name!r} of type {tensor.dtype} and shape {tensor.shape} cannot be in {file.path}"
        )
    offset, needed = tensor.offset or 0, tensor.nbytes
    if tensor.length is not None and tensor.length != needed:
        raise ModelFileError(
            f"{model_path}: tensor {name!r} of {needed} bytes is said to take {tensor.length} bytes of {file.path}"
        )
    if offset < 0 or offset + needed > file.size:
        raise ModelFileError(
            f"{file.path} has {file.size} bytes, but tensor {name!r} of {model_path} needs it to have "
            f"{offset + needed}; it was probably cut short, fetch it again"
        )


def _graphs(model: ir.Model) -> Iterator[ir.Graph]:
    yield model.graph
    yield from model.graph.subgraphs()


def _values_with_external_data(model: ir.Model) -> Iterator[ir.Value]:
    import onnx_ir as ir

    for graph in _graphs(model):
        for value in graph.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                yield value


def _external_tensors(model: ir.Model) -> Iterator[tuple[str, ir.ExternalTensor]]:
    import onnx_ir as ir

    for value in _values_with_external_data(model):
        assert isinstance(value.const_value, ir.ExternalTensor)
        yield str(value.name), value.const_value
    for node in model.graph.all_nodes():
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.TENSOR and isinstance(attribute.value, ir.ExternalTensor):
                yield f"{node.name}.{attribute.name}", attribute.value


def _moved(tensor: object, files: Mapping[str, ExternalFile], root: Path) -> ir.ExternalTensor:
    import onnx_ir as ir

    assert isinstance(tensor, ir.ExternalTensor)
    return ir.ExternalTensor(
        files[str(tensor.location)].target.relative_to(root).as_posix(),
        tensor.offset,
        tensor.length,
        tensor.dtype,
        shape=tensor.shape,
        name=str(tensor.name),
    )
