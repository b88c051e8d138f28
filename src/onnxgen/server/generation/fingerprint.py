"""`system_fingerprint`: a word for everything that decides about a model's answers."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from onnxgen.version import __version__

if TYPE_CHECKING:
    from onnxgen.server.models.table import LoadedModel


def system_fingerprint(model: LoadedModel) -> str:
    """The same as long as model, configuration and version are: with a ``seed``, so are answers."""
    llm = model.text
    said = repr((__version__, model.entry, llm.config, llm.spec.folder, llm.spec.search))
    return f"fp_{hashlib.sha256(said.encode(errors='surrogatepass')).hexdigest()[:10]}"
