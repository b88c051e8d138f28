"""Execution providers found through entry points.

Knows entry points and the provider protocol; knows no provider.
"""

from onnxgen.graph.plugin.discovery import load_provider, provider_names
from onnxgen.graph.plugin.selection import select_providers

__all__ = ["load_provider", "provider_names", "select_providers"]
