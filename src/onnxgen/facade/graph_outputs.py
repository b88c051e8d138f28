"""`GraphOutputs`: outputs of a model's own graph by name, for a `Generator`, from runs beside its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from onnxgen.errors import CapabilityError
from onnxgen.facade.model import Model
from onnxgen.facade.search.last_inputs import LastRun

if TYPE_CHECKING:
    from onnxgen.backends.ort.whole_graph import WholeGraphRun

Array = npt.NDArray[Any]


class GraphOutputs:
    """Reads outputs of the last run of all rows. Nothing is loaded or run before somebody asks.

    Args:
        model: The model.
        given: By name, values of further inputs of its graph.
    """

    def __init__(self, model: Model, given: Mapping[str, Array]) -> None:
        self._model, self._given = model, given
        self._runs: WholeGraphRun | None = None

    def read(self, name: str, last_run: Callable[[], LastRun]) -> Array:
        """An output of the last run, as the graph gives it.

        Args:
            name: Of the output.
            last_run: Says which run that is.

        Raises:
            StateError: There was none.
            CapabilityError: There is no such output, or the graph cannot be run beside the generator.
            BackendError: ONNX Runtime failed.
        """
        from onnxgen.backends.ort.whole_graph import WholeGraphRun

        graph = self._model.whole_graph(frozenset(self._given))
        if name not in graph.outputs:
            raise CapabilityError(
                f"output {name!r} was asked for; the graph has {', '.join(graph.outputs)}, and hidden_states can be read "
                "whether it has them or not"
            )
        run = last_run()
        if run.embedded:
            raise CapabilityError(
                f"output {name!r} cannot be read of a prompt that was given as embeddings; only logits and hidden_states can"
            )
        if self._runs is None:
            self._runs = WholeGraphRun(graph, self._given)
        return self._runs.output(name, ids=run.ids, mask=run.mask, num_new=run.num_new)
