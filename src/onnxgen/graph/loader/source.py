"""Where a model comes from: a file in any encoding, bytes, or an object in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx
import onnx.parser
import onnx.serialization
import onnx_ir as ir
from google.protobuf.message import DecodeError, EncodeError

from onnxgen.errors import ModelFileError, ModelNotFoundError
from onnxgen.foundations.files import check_file, is_present
from onnxgen.graph.loader.lend_tensors import Lent, lend_tensors

ModelSource = str | os.PathLike[str] | bytes | bytearray | memoryview | onnx.ModelProto | ir.Model
"""What a model can be loaded from."""

BYTES = "model given as bytes"


@dataclass(frozen=True, slots=True)
class Source:
    """A parsed model that belongs to the loader alone.

    Attributes:
        proto: The model; may be changed.
        folder: Where the files of its external data are looked for; None where the model has no place.
        origin: What messages call the model.
        lent: Tensors of a model in memory, by the location that stands for them in ``proto``.
    """

    proto: onnx.ModelProto
    folder: Path | None
    origin: str
    lent: Mapping[str, ir.TensorProtocol] = field(default_factory=dict[str, ir.TensorProtocol])


def read_source(source: ModelSource, *, beside: Path | None = None) -> Source:
    """Parse a model from wherever it is.

    Files are read by their suffix: ``.textproto``, ``.pbtxt``, ``.json``, ``.onnxtxt`` and the like as
    `onnx.load` reads them, everything else as binary protobuf.

    Args:
        source: The model.
        beside: The path that a model in bytes would have.

    Raises:
        ModelNotFoundError: There is no such file.
        ModelFileError: It is cut short or of another kind.
        TypeError: ``source`` is none of the kinds a model can be loaded from.
    """
    if isinstance(source, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(source)
        return Source(copy, None, _named("model", source.graph.name))
    if isinstance(source, ir.Model):
        origin = _named("model", source.graph.name or "")
        lent: Lent = lend_tensors(source, origin)
        return Source(lent.proto, None, origin, lent.tensors)
    if isinstance(source, bytes | bytearray | memoryview):
        if beside is None:
            return Source(_parse(bytes(source), BYTES), None, BYTES)
        return Source(_parse(bytes(source), str(beside)), beside.parent, str(beside))
    try:
        path = Path(source).absolute()  # a change of the working folder does not move the model
    except TypeError:
        raise TypeError(
            f"a model is loaded from a path, bytes, onnx.ModelProto or onnx_ir.Model, not {type(source).__name__}"
        ) from None
    if not is_present(path):
        raise ModelNotFoundError(f"there is no file {path}")
    return Source(_parse_file(check_file(path)), path.parent, str(path))


def _named(kind: str, name: str) -> str:
    return f"{kind} {name!r}" if name else f"{kind} without a name"


def _parse_file(path: Path) -> onnx.ModelProto:
    encoding = onnx.serialization.registry.get_format_from_file_extension(path.suffix.lower())
    if encoding in (None, "protobuf"):
        return _parse(path.read_bytes(), str(path))
    try:
        if encoding == "onnxtxt":
            return onnx.parser.parse_model(path.read_text(encoding="utf-8"))
        return onnx.load(path, format=encoding, load_external_data=False)
    except Exception as cause:  # each of the text parsers has errors of its own
        raise ModelFileError(f"{path} cannot be read as {encoding}: {cause}") from cause


def _parse(content: bytes, origin: str) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except (DecodeError, EncodeError) as cause:
        raise ModelFileError(f"{origin} is not an ONNX file or was cut short: {cause}") from cause
    if not proto.HasField("graph"):
        raise ModelFileError(f"{origin} holds no graph; it is not an ONNX model or was cut short")
    return proto
