"""Model names that users type, and how to fetch what they stand for.

Knows sources, hashes and cache folders; knows nothing of what is inside a checkpoint.
"""

from onnxgen.catalog.entries import CatalogEntry, HubSource, PackagePart, PackageSource, entries, find
from onnxgen.catalog.local import LocalItem, LocalKind, local_items, remove_local
from onnxgen.catalog.pull import Pulled, pull

__all__ = [
    "CatalogEntry",
    "HubSource",
    "LocalItem",
    "LocalKind",
    "PackagePart",
    "PackageSource",
    "Pulled",
    "entries",
    "find",
    "local_items",
    "pull",
    "remove_local",
]
