"""Embeddings in place of token ids, for calls of any layout; and what they are for token ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from onnxgen.backends.base import EMBEDS_ROWS, INPUTS_EMBEDS, Float32Array, Int64Array, Step
from onnxgen.backends.ort.graph_edit.names import EMBED_CELLS, EMBEDS

if TYPE_CHECKING:
    from onnxgen.backends.ort.prepare import Prepared
    from onnxgen.backends.ort.session import OrtSession


@dataclass(frozen=True, slots=True)
class GivenEmbeddings:
    """Embeddings that a call is given.

    Attributes:
        cells: int64 ``[given, 2]``, pairs (batch, seq) in the call's own layout.
        embeds: float32 ``[given, width]``.
    """

    cells: Int64Array
    embeds: Float32Array

    def inputs(self) -> dict[str, np.ndarray]:
        """The graph's inputs."""
        return {EMBED_CELLS: self.cells, EMBEDS: self.embeds}


def no_embeddings(width: int) -> GivenEmbeddings:
    """None at all."""
    return GivenEmbeddings(np.empty((0, 2), np.int64), np.empty((0, width), np.float32))


def given_embeddings(
    step: Step, width: int, place: Callable[[Int64Array], tuple[Int64Array, Int64Array]]
) -> GivenEmbeddings:
    """What a step gives to one of its calls.

    Args:
        step: The step.
        width: Of an embedding.
        place: Which of some rows of the step a call has, as indices, and the cells ``[found, 2]`` where.
    """
    if EMBEDS_ROWS not in step.inputs:
        return no_embeddings(width)
    found, cells = place(step.inputs[EMBEDS_ROWS])
    return GivenEmbeddings(
        np.ascontiguousarray(cells), np.ascontiguousarray(step.inputs[INPUTS_EMBEDS][found])
    )


class EmbeddingLookup:
    """The beginning of a decoder's graph as a session of its own, made when it is first asked.

    Args:
        prepared: The decoder's graph.
        load: Makes a session of a graph.
    """

    def __init__(self, prepared: Prepared, load: Callable[[bytes], OrtSession]) -> None:
        self._prepared, self._load = prepared, load
        self._session: OrtSession | None = None

    def __call__(self, token_ids: Int64Array) -> Float32Array:
        """Embeddings of checked ids, float32 ``[n, width]``.

        Raises:
            BackendError: ONNX Runtime failed.
        """
        import onnx
        import onnx_ir as ir

        from onnxgen.backends.ort.graph_edit.given_embeddings import keep_embeddings_only

        if self._session is None:
            model = ir.from_proto(onnx.load_model_from_string(self._prepared.content))
            keep_embeddings_only(model)
            self._session = self._load(ir.to_proto(model).SerializeToString())
        port = self._prepared.ports.input_ids
        (found,) = self._session.run_arrays([], {port.name: token_ids.astype(port.dtype)[:, None]})
        return found.reshape(token_ids.size, -1)
