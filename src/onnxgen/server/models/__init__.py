"""The models of a server: which there are, which are in memory, and how they are.

Knows loading, unloading, restarting and limits; knows nothing of requests but that they use a model for a while.
"""

from __future__ import annotations

from onnxgen.server.models.entry import ModelEntry
from onnxgen.server.models.from_settings import open_table
from onnxgen.server.models.limits import TableLimits
from onnxgen.server.models.loaded import LoadedModel
from onnxgen.server.models.residents import Loader
from onnxgen.server.models.states import ModelState, ModelStatus, TableHealth
from onnxgen.server.models.table import ModelTable

__all__ = [
    "LoadedModel",
    "Loader",
    "ModelEntry",
    "ModelState",
    "ModelStatus",
    "ModelTable",
    "TableHealth",
    "TableLimits",
    "open_table",
]
