"""Which versions of the format and of its operator sets a model asks for."""

from __future__ import annotations

import onnx

from onnxgen.errors import ModelFileError
from onnxgen.graph.ir.schemas import newest_opset, normal_domain
from onnxgen.graph.loader.defects import Defects
from onnxgen.graph.loader.walk import proto_nodes

_OPSETS_SINCE_IR = 3


def check_versions(model: onnx.ModelProto, origin: str, defects: Defects) -> None:
    """Give domains one spelling everywhere, complete the opset imports, and refuse what nobody knows yet.

    Models older than IR version 3 say nothing of opsets and mean opset 1.

    Raises:
        ModelFileError: The model needs a newer format or a newer standard operator set than the installed onnx has.
    """
    if model.ir_version > onnx.IR_VERSION:
        raise ModelFileError(
            f"{origin} has IR version {model.ir_version}; the installed onnx {onnx.__version__} knows versions up to "
            f"{onnx.IR_VERSION}: update onnx, or export the model for an older version"
        )
    if not model.opset_import:
        if model.ir_version >= _OPSETS_SINCE_IR:
            defects.add("it imports no operator set, as models must since IR version 3")
        model.opset_import.add(domain="", version=1)
    for node in proto_nodes(model):
        node.domain = normal_domain(node.domain)
    _normalize(model, "the model", origin, defects)
    for function in model.functions:
        function.domain = normal_domain(function.domain)
        _normalize(function, f"function {function.name!r}", origin, defects)
    _complete(model)


def opsets(message: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
    """Versions by domain of what went through `check_versions`."""
    return {entry.domain: entry.version for entry in message.opset_import}


def _normalize(
    message: onnx.ModelProto | onnx.FunctionProto, where: str, origin: str, defects: Defects
) -> None:
    versions: dict[str, int] = {}
    for entry in message.opset_import:
        domain, version = normal_domain(entry.domain), entry.version
        if versions.setdefault(domain, version) != version:
            defects.add(
                f"{where} imports domain {domain or 'ai.onnx'!r} as version {versions[domain]} and {version}"
            )
        if version < 1:
            defects.add(f"{where} imports version {version} of domain {domain or 'ai.onnx'!r}")
        if domain == "" and version > newest_opset():
            raise ModelFileError(
                f"{origin}: {where} imports opset {version} of the standard; the installed onnx "
                f"{onnx.__version__} knows opsets up to {newest_opset()}: update onnx, or export the model for an "
                "older opset"
            )
    message.ClearField("opset_import")
    for domain, version in versions.items():
        message.opset_import.add(domain=domain, version=version)


def _complete(model: onnx.ModelProto) -> None:
    """Import what nodes use and nobody imported, in the newest version known, as ONNX Runtime does."""
    imported = opsets(model)
    for domain in dict.fromkeys(node.domain for node in proto_nodes(model)):
        if domain not in imported:
            model.opset_import.add(domain=domain, version=_newest(domain))


def _newest(domain: str) -> int:
    try:
        return newest_opset(domain)
    except KeyError:
        return 1
