"""Operators as Python functions: ``eager.Add(x, y)``, ``eager.opset(12).Softmax(x)``, ``eager.ml.Scaler(x, ...)``.

Knows operators; shares nothing with sessions but the layers below.

The functions of this module are those of one `EagerContext` with the default providers and the newest opset;
`context` makes others. Inputs are arrays of any library that has ``__dlpack__`` or ``__array__``, Python scalars and
lists, None for optional inputs left out; outputs are NumPy arrays, of ml_dtypes where NumPy lacks the type. As with
NumPy, operators that only change the shape may return views.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxgen.graph.eager.context import EagerContext, Operators

__all__ = ["EagerContext", "Operators", "cache_clear", "cache_info", "context", "domain", "ml", "opset"]

_DEFAULT = EagerContext()

context = EagerContext
opset = _DEFAULT.opset
domain = _DEFAULT.domain
ml = _DEFAULT.ml
cache_info = _DEFAULT.cache_info
cache_clear = _DEFAULT.cache_clear


def __getattr__(name: str) -> Callable[..., Any]:
    return getattr(_DEFAULT, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_DEFAULT)})
