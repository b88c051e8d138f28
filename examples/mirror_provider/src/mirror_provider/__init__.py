"""An execution provider for onnxgen whose device is not the host.

Knows onnxgen's provider protocol; onnxgen knows it only by its entry point.
"""

from mirror_provider.device import MirrorValue
from mirror_provider.provider import MirrorProvider

__all__ = ["MirrorProvider", "MirrorValue"]
