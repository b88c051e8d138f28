"""Images and sounds that messages name: read from data URIs, and from web addresses only where that is allowed.

Knows addresses, sizes and types; knows nothing of models. Whether a model can see or hear is asked before anything here.
"""

from __future__ import annotations

from onnxgen.server.media.policy import MediaPolicy
from onnxgen.server.media.reader import Media, MediaReader

__all__ = ["Media", "MediaPolicy", "MediaReader"]
