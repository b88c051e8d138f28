"""Execution providers by name: ours and those that installed packages declare."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any

from onnxgen.errors import BackendError, ConfigError
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.graph.ep.provider import ExecutionProvider

GROUP = "onnxgen.execution_providers"
"""The entry-point group: name of the provider to what makes it, a class or function."""


def provider_names() -> tuple[str, ...]:
    """Names of every provider that is installed, sorted; nothing is imported."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


def load_provider(
    name: str, options: Mapping[str, str] = MappingProxyType[str, str]({})
) -> ExecutionProvider:
    """The provider of that name; one instance for a process and a set of options.

    Args:
        name: As the entry point has it.
        options: Keyword arguments of what makes the provider; values are strings, as ONNX Runtime has them.

    Raises:
        ConfigError: no such provider, two packages declare it, or it does not know an option.
        BackendError: the package cannot be imported or what it declares is not a provider.
    """
    return _load(name, tuple(sorted((str(key), str(value)) for key, value in options.items())))


def find(name: str) -> EntryPoint:
    """The entry point of a provider.

    Raises:
        ConfigError: there is none, or two packages declare different ones.
    """
    points = [point for point in entry_points(group=GROUP) if point.name == name]
    if not points:
        known = provider_names()
        raise ConfigError(
            f"no execution provider is called {name!r}{did_you_mean(name, known)}; installed are {', '.join(known)}"
        )
    if len({point.value for point in points}) > 1:
        rivals = ", ".join(f"{_package(point)} ({point.value})" for point in points)
        raise ConfigError(
            f"execution provider {name!r} is declared by several packages: {rivals}; uninstall all but one"
        )
    return points[0]


@cache
def _load(name: str, options: tuple[tuple[str, str], ...]) -> ExecutionProvider:
    point = find(name)
    where = f"execution provider {name!r} of {_package(point)} ({point.value})"
    try:
        make = point.load()
    except Exception as cause:  # whatever a package does when it is imported
        raise BackendError(f"{where} cannot be imported: {type(cause).__name__}: {cause}") from cause
    given = dict(options)
    _check_options(make, given, where)
    try:
        provider = make(**given)
    except ValueError as cause:
        raise ConfigError(f"{where} refuses its options {given}: {cause}") from cause
    except Exception as cause:
        raise BackendError(f"{where} cannot be started: {type(cause).__name__}: {cause}") from cause
    check_provider(provider, where)
    if provider.name != name:
        raise BackendError(f"{where} calls itself {provider.name!r}; both names must be the same")
    return provider


def check_provider(provider: object, where: str) -> None:
    """Refuse what is not an execution provider, naming what it lacks.

    Raises:
        BackendError: it lacks an attribute or a method of `ExecutionProvider`.
    """
    members = [name for name in vars(ExecutionProvider) if not name.startswith("_")]
    missing = [name for name in members if not hasattr(provider, name)]
    if missing:
        raise BackendError(
            f"{where} is not an execution provider: {type(provider).__name__} lacks {', '.join(missing)}"
        )


def _check_options(make: Callable[..., Any], options: Mapping[str, str], where: str) -> None:
    if not callable(make):
        raise BackendError(
            f"{where} is a {type(make).__name__}, not a class or function that makes a provider"
        )
    try:
        signature = inspect.signature(make)
    except ValueError:  # a class written in C: it will say itself
        return
    try:
        signature.bind(**options)
    except TypeError as cause:
        known = [name for name, parameter in signature.parameters.items() if parameter.kind in _NAMED]
        strange = [name for name in options if name not in known]
        hint = did_you_mean(strange[0], known) if strange else ""
        takes = f"it takes {', '.join(known)}" if known else "it takes no options"
        raise ConfigError(f"{where} was given the options {dict(options)}: {cause}{hint}; {takes}") from cause


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unknown package"
