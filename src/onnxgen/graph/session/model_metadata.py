"""What a model file says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """Who made a model, and what they wrote into it; empty where they wrote nothing.

    Attributes:
        producer_name: The tool that wrote the file.
        graph_name: Name of the main graph.
        domain: Reverse-DNS name space of the model.
        description: Of the model.
        graph_description: Of the main graph.
        version: The model's own version, 0 where there is none.
        custom_metadata_map: Free text by key.
    """

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: Mapping[str, str]


def read_metadata(model: ir.Model) -> ModelMetadata:
    """Collect a model's metadata."""
    return ModelMetadata(
        producer_name=model.producer_name or "",
        graph_name=model.graph.name or "",
        domain=model.domain or "",
        description=model.doc_string or "",
        graph_description=model.graph.doc_string or "",
        version=model.model_version or 0,
        custom_metadata_map=dict(model.metadata_props),
    )
