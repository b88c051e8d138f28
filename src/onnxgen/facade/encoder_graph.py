"""`EncoderGraph`: an encoder's ONNX file, from token ids to the states of tokens or to vectors of texts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.errors import CapabilityError, ConfigError, ModelFileError
from onnxgen.facade.pooling import Float32Array
from onnxgen.foundations.files import is_present, read_json_object
from onnxgen.foundations.runtime_config import RuntimeConfig

GRAPH_FILES = ("model.onnx", "onnx/model.onnx")
"""Where encoders are found in their folders."""

_log = logging.getLogger(__name__)

_Run = Callable[[list[str], dict[str, Any]], Sequence[Any]]

_STATES = ("last_hidden_state", "token_embeddings", "hidden_states")
_STATES_RANK, _VECTORS_RANK = 3, 2


def find_encoder(folder: Path) -> Path | None:
    """The ONNX file of an encoder's folder, None where there is none."""
    return next((folder / name for name in GRAPH_FILES if is_present(folder / name)), None)


class EncoderGraph:
    """An encoder in a session of this package's graph runtime, or of ONNX Runtime. May be used from several threads.

    Args:
        path: The ONNX file, with inputs ``input_ids``, ``attention_mask`` and, in some, ``token_type_ids`` or
            ``position_ids``, all ``[batch, seq]``.
        config: How to run it. ``auto`` takes this package's runtime where it has every operator.

    Attributes:
        gives_vectors: The graph pools by itself: it gives ``[batch, dim]`` only.

    Raises:
        ConfigError: The configuration is wrong, or asks for a backend that there is not.
        ModelFileError: The file is broken, or has no output that could be meant.
        CapabilityError: It has inputs that nobody here knows how to fill, or operators that this package's runtime does
            not have, where that was asked for.
        BackendError: ONNX Runtime refuses the graph.
    """

    def __init__(self, path: Path, config: RuntimeConfig) -> None:
        inputs, outputs, self._run = _open(path, config)
        unknown = sorted(inputs.keys() - {"input_ids", "attention_mask", "token_type_ids", "position_ids"})
        if unknown or "input_ids" not in inputs:
            raise CapabilityError(
                f"{path} has inputs {', '.join(inputs)}; an encoder of text has input_ids, attention_mask and no others "
                "but token_type_ids and position_ids"
            )
        self._types = {name: np.int32 if "int32" in kind else np.int64 for name, kind in inputs.items()}
        states = [
            *(n for n in _STATES if n in outputs),
            *(n for n, r in outputs.items() if r == _STATES_RANK),
        ]
        vectors = [name for name, rank in outputs.items() if rank == _VECTORS_RANK]
        if not states and not vectors:
            raise ModelFileError(
                f"{path} has outputs {', '.join(outputs)}, none of them [batch, seq, dim] or [batch, dim]"
            )
        self.gives_vectors = not states
        self._output = (states or vectors)[0]

    def run(self, ids: npt.NDArray[np.int64], mask: npt.NDArray[np.int64]) -> Float32Array:
        """States float32 ``[batch, seq, dim]`` (or vectors ``[batch, dim]``) of ids and mask ``[batch, seq]``.

        Raises:
            KernelError: A node failed.
            BackendError: ONNX Runtime failed.
        """
        values = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(ids),
            "position_ids": np.broadcast_to(np.arange(ids.shape[1]), ids.shape),
        }
        feeds: dict[str, Any] = {name: values[name].astype(kind) for name, kind in self._types.items()}
        (result,) = self._run([self._output], feeds)
        return np.asarray(result, np.float32)


def _open(path: Path, config: RuntimeConfig) -> tuple[dict[str, str], dict[str, int | None], _Run]:
    """Types of a graph's inputs, axes of its outputs, and what runs it."""
    from onnxgen.backends import AUTO, NATIVE, ORT

    if config.backend not in (AUTO, NATIVE, ORT):
        raise ConfigError(
            f"backend {config.backend!r} was asked for; encoders run on {AUTO}, {NATIVE} and {ORT}"
        )
    if config.backend != ORT and (config.backend == NATIVE or not config.providers):
        try:
            return _open_here(path, config)
        except CapabilityError as reason:
            if config.backend == NATIVE:
                raise
            _log.info("%s runs with ONNX Runtime: %s", path, reason)
    from onnxgen.backends.ort.plain_graph import PlainGraph

    graph = PlainGraph(path, config)
    return dict(graph.input_types), dict(graph.output_ranks), graph.run


def _open_here(path: Path, config: RuntimeConfig) -> tuple[dict[str, str], dict[str, int | None], _Run]:
    from onnxgen.graph.session import InferenceSession, SessionOptions

    session = InferenceSession(path, SessionOptions(intra_op_num_threads=config.threads or 0))
    inputs = {value.name: value.type for value in session.get_inputs()}
    return inputs, {value.name: value.rank for value in session.get_outputs()}, session.run


def longest_of(folder: Path) -> int | None:
    """The longest text of an encoder by its checkpoint's configuration, in tokens; None where nothing says so."""
    lengths: list[int] = []
    for name, key in (
        ("config.json", "max_position_embeddings"),
        ("tokenizer_config.json", "model_max_length"),
    ):
        if is_present(folder / name):
            length = read_json_object(folder / name).get(key)
            if isinstance(length, int) and 0 < length < _NO_LIMIT:
                lengths.append(length)
    return min(lengths, default=None)


_NO_LIMIT = 10**9
"""transformers writes about 1e30 for a tokenizer without a limit."""
