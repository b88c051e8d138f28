"""Sessions on ONNX graphs as the commands use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from onnxgen.errors import ConfigError, ModelNotFoundError, OptionError
from onnxgen.foundations.suggest import did_you_mean

if TYPE_CHECKING:
    from onnxgen.facade.runtime import InferenceSession

_LEVELS = {
    "disabled": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}


def graph_path(model: str) -> Path:
    """The graph that MODEL means: an ONNX file, a model folder's decoder, or the only ONNX file of a folder.

    Raises:
        ModelNotFoundError: There is no such file, no graph in the folder, or several.
        ModelFileError: The folder's metadata is wrong.
    """
    from onnxgen.metadata import load_model_spec
    from onnxgen.metadata.folder import is_model_folder

    path = Path(model).expanduser()
    if not path.exists():
        raise ModelNotFoundError(f"{model!r} is no file or folder; give an ONNX file or a model folder")
    if not path.is_dir():
        return path
    if is_model_folder(path):
        return load_model_spec(path).decoder.path
    found = sorted(path.glob("*.onnx"))
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise ModelNotFoundError(f"{path} has no one ONNX file (found: {names}); name the file")
    return found[0]


def open_session(
    path: Path, *, providers: Sequence[str], optimization: str, sizes: Mapping[str, int], trace: Path | None
) -> InferenceSession:
    """A session on a graph.

    Args:
        path: The ONNX file.
        providers: Names in the order of preference.
        optimization: disabled, basic, extended or all.
        sizes: Sizes of symbolic dimensions; those that the model does not have are refused.
        trace: Where `write_trace` will write; None keeps no trace.

    Raises:
        OptionError: An option is wrong.
        ModelFileError: The file is wrong.
        UnsupportedOperatorError: No provider runs a node.
    """
    from onnxgen.facade.runtime import GraphOptimizationLevel, InferenceSession, SessionOptions

    if optimization not in _LEVELS:
        hint = did_you_mean(optimization, _LEVELS)
        raise OptionError(f"--optimization {optimization!r}{hint}; there are {', '.join(_LEVELS)}")
    if trace is not None and not trace.absolute().parent.is_dir():
        raise OptionError(f"--trace {trace}: there is no folder {trace.absolute().parent}")
    options = SessionOptions(
        graph_optimization_level=GraphOptimizationLevel[_LEVELS[optimization]],
        enable_profiling=trace is not None,
        profile_file_prefix=str(trace or ""),
    )
    _check_symbols(path, sizes)
    for name, size in sizes.items():
        options.add_free_dimension_override_by_name(name, size)
    try:
        return InferenceSession(str(path), options, list(providers))
    except ConfigError as error:
        raise OptionError(f"--providers {','.join(providers)}: {error}") from error


def _check_symbols(path: Path, sizes: Mapping[str, int]) -> None:
    if not sizes:
        return
    import onnx_ir as ir

    dims = [dim for value in ir.load(path).graph.inputs for dim in value.shape or ()]
    symbols = sorted({dim.value for dim in dims if isinstance(dim, ir.SymbolicDim) and dim.value})
    for name in sizes:
        if name not in symbols:
            raise OptionError(
                f"--dim {name}: no input of {path.name} has a dimension of that name{did_you_mean(name, symbols)}; "
                f"there are {', '.join(symbols) or 'none'}"
            )


def write_trace(session: InferenceSession, trace: Path | None) -> None:
    """Write the trace of a session that was opened with one, to the very path that was asked for."""
    if trace is not None:
        Path(session.end_profiling()).replace(trace)
