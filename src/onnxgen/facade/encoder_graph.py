"""`EncoderGraph`: an encoder's ONNX file, from token ids to the states of tokens or to vectors of texts."""

from __future__ import annotations

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

_STATES = ("last_hidden_state", "token_embeddings", "hidden_states")
_STATES_RANK, _VECTORS_RANK = 3, 2


def find_encoder(folder: Path) -> Path | None:
    """The ONNX file of an encoder's folder, None where there is none."""
    return next((folder / name for name in GRAPH_FILES if is_present(folder / name)), None)


class EncoderGraph:
    """An encoder in a session of our own graph runtime. May be used from several threads.

    Args:
        path: The ONNX file, with inputs ``input_ids``, ``attention_mask`` and, in some, ``token_type_ids`` or
            ``position_ids``, all ``[batch, seq]``.
        config: How to run it.

    Attributes:
        gives_vectors: The graph pools by itself: it gives ``[batch, dim]`` only.

    Raises:
        ConfigError: The configuration asks for another backend.
        ModelFileError: The file is broken, or has no output that could be meant.
        CapabilityError: It has inputs that nobody here knows how to fill.
    """

    def __init__(self, path: Path, config: RuntimeConfig) -> None:
        from onnxgen.graph.session import InferenceSession, SessionOptions

        if config.backend not in ("auto", "native"):
            raise ConfigError(
                f"backend {config.backend!r} was asked for; encoders run in the graph runtime of this package, which is "
                "'auto' or 'native'"
            )
        options = SessionOptions(intra_op_num_threads=config.threads or 0)
        self._session = InferenceSession(path, options)
        inputs = {value.name: value.type for value in self._session.get_inputs()}
        unknown = sorted(inputs.keys() - {"input_ids", "attention_mask", "token_type_ids", "position_ids"})
        if unknown or "input_ids" not in inputs:
            raise CapabilityError(
                f"{path} has inputs {', '.join(inputs)}; an encoder of text has input_ids, attention_mask and no others "
                "but token_type_ids and position_ids"
            )
        self._types = {name: np.int32 if "int32" in kind else np.int64 for name, kind in inputs.items()}
        outputs = {value.name: value.rank for value in self._session.get_outputs()}
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
        """
        values = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(ids),
            "position_ids": np.broadcast_to(np.arange(ids.shape[1]), ids.shape),
        }
        feeds: dict[str, Any] = {name: values[name].astype(kind) for name, kind in self._types.items()}
        (result,) = self._session.run([self._output], feeds)
        return np.asarray(result, np.float32)


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
