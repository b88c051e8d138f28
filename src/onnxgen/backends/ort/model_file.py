"""Reads an ONNX file for rewriting, after checking every file that it refers to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from onnxgen.backends.base import DecoderModel
from onnxgen.errors import ModelFileError
from onnxgen.foundations.files import check_file, confined

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A parsed model and the folder that its external data is named from.

    Attributes:
        path: The ONNX file, for messages.
        model: The parsed model; tensors outside the file stay there.
        data_folder: Locations of external data in ``model`` are relative to this folder.
    """

    path: Path
    model: ir.Model
    data_folder: Path


def read_model_file(model: DecoderModel) -> ModelFile:
    """Parse a model and check its external data.

    Raises:
        ModelFileError: The file is missing, truncated or not ONNX; or external data is missing, shorter
            than the model says, or outside the model folder.
    """
    import onnx
    import onnx_ir as ir
    from google.protobuf.message import DecodeError

    content = model.model_bytes if model.model_bytes is not None else check_file(model.path).read_bytes()
    try:
        parsed = ir.from_proto(onnx.load_model_from_string(content))
    except DecodeError as cause:
        raise ModelFileError(f"{model.path} is not an ONNX file or was cut short: {cause}") from cause
    except (ValueError, TypeError, KeyError, NotImplementedError) as cause:
        raise ModelFileError(f"{model.path} is not a graph that can be read: {cause}") from cause
    if not parsed.graph.outputs:
        raise ModelFileError(f"{model.path} has no outputs; it is not a decoder")
    return ModelFile(model.path, parsed, _anchor_external_data(parsed, model.path))


def _anchor_external_data(model: ir.Model, path: Path) -> Path:
    """Check external data, and return the folder that its locations are relative to.

    Hub caches keep files in ``blobs`` and fill the model folder with links to them. ONNX Runtime refuses
    data whose real path leaves the folder, so such locations are renamed relative to the cache entry.
    """
    folder = path.parent
    tensors = list(_external_tensors(model))
    real = {location: _real_path(folder, location) for location in {str(t.location) for _, t in tensors}}
    for name, tensor in tensors:
        _check_extent(path, name, tensor, real[str(tensor.location)])
    root = folder.resolve()
    if all(p.is_relative_to(root) for p in real.values()):
        return root
    root = root.parent.parent
    for graph_value in _values_with_external_data(model):
        graph_value.const_value = _moved(graph_value.const_value, real, root)
    return root


def _real_path(folder: Path, location: str) -> Path:
    return check_file(confined(folder, location)).resolve()


def _check_extent(model_path: Path, name: str, tensor: ir.ExternalTensor, file: Path) -> None:
    offset, needed, size = tensor.offset or 0, tensor.nbytes, file.stat().st_size
    if tensor.length is not None and tensor.length != needed:
        raise ModelFileError(
            f"{model_path}: tensor {name!r} of {needed} bytes is said to take {tensor.length} bytes of {file}"
        )
    if offset < 0 or offset + needed > size:
        raise ModelFileError(
            f"{file} has {size} bytes, but tensor {name!r} of {model_path} needs it to have "
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


def _moved(tensor: object, real: dict[str, Path], root: Path) -> ir.ExternalTensor:
    import onnx_ir as ir

    assert isinstance(tensor, ir.ExternalTensor)
    return ir.ExternalTensor(
        real[str(tensor.location)].relative_to(root).as_posix(),
        tensor.offset,
        tensor.length,
        tensor.dtype,
        shape=tensor.shape,
        name=str(tensor.name),
    )
