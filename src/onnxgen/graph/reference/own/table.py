"""Which class runs which version of which operator instead of onnx.reference's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx.defs
from onnx.reference.op_run import OpRun


class OwnOperators:
    """Classes by operator and version; each family's file fills one."""

    def __init__(self) -> None:
        self._classes: dict[tuple[str, str, int], type[OpRun]] = {}

    def __iter__(self) -> Iterator[tuple[tuple[str, str, int], type[OpRun]]]:
        """Domain, operator and version, with its class."""
        return iter(self._classes.items())

    def operator(
        self, op_type: str, *versions: int, domain: str = ""
    ) -> Callable[[type[OpRun]], type[OpRun]]:
        """Register the decorated class for versions (``since_version`` of schemas) of an operator.

        The class is registered once for each version, with that version's schema, which says defaults of attributes.
        """

        def register(implementation: type[OpRun]) -> type[OpRun]:
            for version in versions:
                schema = onnx.defs.get_schema(op_type, version, domain)
                assert schema.since_version == version, f"{op_type} has no version {version}"
                # onnx.reference looks classes up by their names
                named = type(op_type, (implementation,), {"op_schema": schema, "op_domain": domain})
                self._classes[domain, op_type, version] = named
            return implementation

        return register
