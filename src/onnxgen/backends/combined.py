"""Several adapters at once as one adapter: what they add is added up."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from onnxgen.backends.adapters import Adapter, Array, LoraPair
from onnxgen.errors import OptionError


def combine(adapters: Sequence[Adapter], name: str) -> Adapter:
    """One adapter that changes a model as all of them do together.

    Raises:
        OptionError: Two have values for the same graph input, of which there can be one only.
    """
    pairs: dict[str, LoraPair] = {}
    inputs: dict[str, Array] = {}
    for adapter in adapters:
        for module, pair in adapter.pairs.items():
            pairs[module] = pair if module not in pairs else _sum(pairs[module], pair)
        for given, value in adapter.inputs.items():
            if given in inputs:
                raise OptionError(
                    f"adapters {', '.join(repr(a.name) for a in adapters)} cannot be active together: more than one has "
                    f"a value for the graph input {given!r}"
                )
            inputs[given] = value
    digest = hashlib.sha256("\n".join(sorted(a.digest for a in adapters)).encode()).hexdigest()
    source = ", ".join(a.source for a in adapters)
    return Adapter(name, source=source, digest=digest, pairs=pairs, inputs=inputs)


def _sum(one: LoraPair, other: LoraPair) -> LoraPair:
    return LoraPair(np.concatenate([one.a, other.a]), np.concatenate([one.b, other.b], axis=1))
