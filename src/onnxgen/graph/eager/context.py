"""Namespaces of operators: a set of providers, a domain, an opset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

import onnx.defs

from onnxgen.errors import OptionError
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.graph.eager.kernels import kernel_cache
from onnxgen.graph.eager.operator import make_operator
from onnxgen.graph.ep.provider import ExecutionProvider
from onnxgen.graph.ir.schemas import newest_opset, normal_domain, schema
from onnxgen.graph.plugin.selection import ProviderChoice, select_providers

ML = "ai.onnx.ml"


class Operators:
    """The operators of a domain, as attributes. Make it with `EagerContext`.

    Args:
        kernels: See `onnxgen.graph.eager.kernels.kernel_cache`.
        domain: The domain, in its normal spelling.
        opset: Its version.
    """

    def __init__(self, kernels: Callable[..., Any], domain: str, opset: int) -> None:
        self._kernels = kernels
        self._domain = domain
        self._opset = opset

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The operator of that name, as a function; made at the first use.

        Raises:
            AttributeError: there is none in this opset.
        """
        if not name[:1].isupper():
            hint = (
                "" if name.startswith("_") else did_you_mean(name, operator_names(self._domain, self._opset))
            )
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}")
        found = schema(self._domain, name, self._opset)
        if found is None and self._domain in _known_domains():
            known = operator_names(self._domain, self._opset)
            where = f"{self._domain or 'ai.onnx'} opset {self._opset}"
            raise AttributeError(f"{where} has no operator {name!r}{did_you_mean(name, known)}")
        if found is not None and found.deprecated:
            raise AttributeError(
                f"{name} was withdrawn in opset {found.since_version}; it is in opset({found.since_version - 1})"
            )
        function = make_operator(self._kernels, self._domain, name, self._opset, found)
        self.__dict__[name] = function
        return function

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *operator_names(self._domain, self._opset)})

    def __repr__(self) -> str:
        return f"<operators of {self._domain or 'ai.onnx'} opset {self._opset}>"


class EagerContext:
    """Operators on a set of providers, with a cache of compiled kernels of its own.

    The standard's operators are attributes; `domain` has those of others.

    Args:
        providers: As for `onnxgen.InferenceSession`; ``cpu`` and ``reference`` where none are given.
        provider_options: Options by position, when ``providers`` are plain names.
        opset: Version of the standard; the newest that the installed onnx knows where None.
        cache_size: How many kernels to keep.
    """

    def __init__(
        self,
        providers: Sequence[ProviderChoice] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        opset: int | None = None,
        cache_size: int = 4096,
    ) -> None:
        self._asked = (providers, provider_options)
        self._kernels = kernel_cache(lambda: self.providers, cache_size)
        self._operators = cache(self._make_operators)
        self._standard = self.opset(opset) if opset is not None else self.domain("")

    @cached_property
    def providers(self) -> tuple[ExecutionProvider, ...]:
        """Whom operators are offered, in this order; loaded at the first call."""
        return select_providers(*self._asked)

    def opset(self, version: int) -> Operators:
        """The standard's operators as that version has them.

        Raises:
            OptionError: the installed onnx does not know that version.
        """
        return self.domain("", version)

    def domain(self, name: str, version: int | None = None) -> Operators:
        """The operators of a domain; any name where onnx knows no operators of the domain.

        Args:
            name: ``ai.onnx`` or ``""``, ``ai.onnx.ml``, ``com.microsoft`` ...
            version: The newest that the installed onnx knows where None, 1 for domains that it does not know.

        Raises:
            OptionError: see `opset`.
        """
        return self._operators(normal_domain(name), version)

    @property
    def ml(self) -> Operators:
        """The operators of ``ai.onnx.ml``."""
        return self.domain(ML)

    def cache_info(self) -> Any:
        """Hits, misses and sizes of the kernel cache, as `functools.lru_cache` has them."""
        return self._kernels.cache_info()

    def cache_clear(self) -> None:
        """Forget every compiled kernel."""
        self._kernels.cache_clear()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self._standard, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._standard)})

    def _make_operators(self, domain: str, version: int | None) -> Operators:
        newest = newest_opset(domain) if domain in _known_domains() else None
        if version is None:
            return Operators(self._kernels, domain, newest or 1)
        if version < 1 or (newest is not None and version > newest):
            most = "any number" if newest is None else f"1 to {newest}"
            raise OptionError(
                f"{domain or 'ai.onnx'} has opsets {most} in the installed onnx, found {version}"
            )
        return Operators(self._kernels, domain, version)


@cache
def operator_names(domain: str, opset: int) -> tuple[str, ...]:
    """Operators that a domain has in an opset; none where onnx does not know the domain."""
    names = {item.name for item in onnx.defs.get_all_schemas_with_history() if item.domain == domain}
    found = {name: schema(domain, name, opset) for name in names}
    return tuple(sorted(name for name, item in found.items() if item is not None and not item.deprecated))


@cache
def _known_domains() -> frozenset[str]:
    return frozenset(onnx.defs.C.schema_version_map())
