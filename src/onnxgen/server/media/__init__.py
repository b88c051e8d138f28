"""Images and sounds that messages name: read from data URIs, and from web addresses only where that is allowed.

Knows addresses, sizes and types; knows nothing of models, but for what they take besides text. `MediaCheck` judges what
every request brings; `onnxgen.server.media.reader.MediaReader` is for models that see or hear, of which there are none yet.
"""

from __future__ import annotations

from onnxgen.server.media.check import MediaCheck
from onnxgen.server.media.parts import check_media_part, is_media
from onnxgen.server.media.policy import Kind, MediaPolicy

__all__ = ["Kind", "MediaCheck", "MediaPolicy", "check_media_part", "is_media"]
