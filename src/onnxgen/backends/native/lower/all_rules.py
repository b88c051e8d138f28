"""Every rule, by the operator it is for."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping

from onnxgen.backends.native.lower.rule import Rule
from onnxgen.backends.native.lower.rules import attention, elementwise, embedding, norms, products, shapes

_TABLES = (attention.TABLE, elementwise.TABLE, embedding.TABLE, norms.TABLE, products.TABLE, shapes.TABLE)

RULES: Mapping[tuple[str, str], Rule] = ChainMap(*(dict(table.rules) for table in _TABLES))
