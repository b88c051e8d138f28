"""`MtpSource`: a checkpoint as its head for drafts sees it, a decoder of one layer."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.builder.spec import MtpSpec
from onnxgen.builder.weights import BlockQuantized, WeightSource

_LAYER, _NORM = "model.layers.0.", "model.norm.weight"


class MtpSource:
    """A `WeightSource` whose layer 0 and last norm are those of a head; everything else is the checkpoint's.

    Args:
        source: The checkpoint; stays the caller's.
        head: The head.
    """

    def __init__(self, source: WeightSource, head: MtpSpec) -> None:
        self._source, self._head = source, head
        shown = {
            _LAYER + name.removeprefix(head.prefix) for name in source.names if name.startswith(head.prefix)
        }
        self._names = shown | {name for name in source.names if self._own(name) == name}
        if self._own(_NORM) in source.names:
            self._names.add(_NORM)

    @property
    def path(self) -> Path:
        """The checkpoint's."""
        return self._source.path

    @property
    def config(self) -> Mapping[str, Any]:
        """The checkpoint's."""
        return self._source.config

    @property
    def metadata(self) -> Mapping[str, Any] | None:
        """The checkpoint's."""
        return self._source.metadata

    @property
    def names(self) -> AbstractSet[str]:
        """Names of all tensors."""
        return self._names

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return self._source.shape(self._own(name))

    def stored_type(self, name: str) -> str:
        """Type of a tensor."""
        return self._source.stored_type(self._own(name))

    def load(self, name: str) -> npt.NDArray[np.generic]:
        """Read a tensor."""
        return self._source.load(self._own(name))

    def load_blocks(self, name: str) -> BlockQuantized | None:
        """Read a tensor in blocks."""
        return self._source.load_blocks(self._own(name))

    def close(self) -> None:
        """Nothing: the checkpoint stays the caller's."""

    def _own(self, name: str) -> str:
        """What the checkpoint calls a tensor."""
        if name == _NORM:
            return f"{self._head.prefix}{self._head.final_norm}.weight"
        return self._head.prefix + name.removeprefix(_LAYER) if name.startswith(_LAYER) else name
