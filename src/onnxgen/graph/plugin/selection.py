"""The providers that a caller asks for, in any of the spellings that are allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnxgen.errors import BackendError, ConfigError
from onnxgen.graph.ep.provider import ExecutionProvider
from onnxgen.graph.plugin.discovery import check_provider, load_provider

DEFAULT = ("cpu", "reference")
"""Fast kernels where there are any, and every operator of the standard."""

_ALIASES = {"CPUExecutionProvider": DEFAULT}
"""Names of ONNX Runtime's that mean the same here."""

ProviderChoice = str | tuple[str, Mapping[str, Any]] | ExecutionProvider
"""A name, a name with options, or a provider."""


def select_providers(
    providers: Sequence[ProviderChoice] | None = None,
    provider_options: Sequence[Mapping[str, Any]] | None = None,
) -> tuple[ExecutionProvider, ...]:
    """The providers in the order of preference; `DEFAULT` where none are named.

    Args:
        providers: What is asked for. ``"CPUExecutionProvider"`` means `DEFAULT`.
        provider_options: Options for each of ``providers``, which are plain names then.

    Raises:
        ConfigError: an unknown provider or option, lists that do not match, or one name with two sets of options.
        BackendError: a provider cannot be loaded.
    """
    asked = _with_options(providers, provider_options)
    options_by_name: dict[str, dict[str, str]] = {}
    chosen: dict[str, ExecutionProvider] = {}
    for choice, options in asked:
        if not isinstance(choice, str):
            if choice.name in chosen and chosen[choice.name] is not choice:
                raise ConfigError(
                    f"two providers are called {choice.name!r}; a session tells them apart by name"
                )
            chosen[choice.name] = choice
            continue
        names = _ALIASES.get(choice, (choice,))
        if choice in _ALIASES and options:
            raise ConfigError(f"{choice} has no options here, was given {options}")
        for name in names:
            if name in chosen and options_by_name.get(name, {}) != options:
                raise ConfigError(f"provider {name!r} is asked for twice, with different options")
            options_by_name[name] = options
            chosen.setdefault(name, load_provider(name, options))
    return tuple(chosen.values())


def options_by_name(
    providers: Sequence[ProviderChoice] | None = None,
    provider_options: Sequence[Mapping[str, Any]] | None = None,
) -> dict[str, dict[str, str]]:
    """The options of the providers that are asked for by name; arguments as for `select_providers`."""
    asked = _with_options(providers, provider_options)
    return {
        name: options
        for choice, options in asked
        if isinstance(choice, str)
        for name in _ALIASES.get(choice, (choice,))
    }


def _with_options(
    providers: Sequence[ProviderChoice] | None, provider_options: Sequence[Mapping[str, Any]] | None
) -> list[tuple[str | ExecutionProvider, dict[str, str]]]:
    asked = _listed(providers)
    if provider_options is None:
        return [_one(choice) for choice in asked]
    if providers is None or len(provider_options) != len(asked):
        raise ConfigError(
            f"provider_options needs one entry for each provider: found {len(provider_options)} for "
            f"{len(providers or ())} providers"
        )
    pairs: list[tuple[str | ExecutionProvider, dict[str, str]]] = []
    for choice, options in zip(asked, provider_options, strict=True):
        if not isinstance(choice, str):
            raise ConfigError(f"provider_options are for providers given by name, found {choice!r}")
        pairs.append((choice, _texts(options)))
    return pairs


def _listed(providers: Any) -> list[Any]:
    if isinstance(providers, str | bytes) or not isinstance(providers or (), Sequence):
        raise ConfigError(f"providers are a list of names, found {providers!r}")
    return list(providers or DEFAULT)


def _one(choice: Any) -> tuple[str | ExecutionProvider, dict[str, str]]:
    if isinstance(choice, str):
        return choice, {}
    if isinstance(choice, tuple):
        if len(choice) == 2 and isinstance(choice[0], str) and isinstance(choice[1], Mapping):
            return choice[0], _texts(choice[1])
        raise ConfigError(f"a provider is a name, a pair of name and options, or an object, found {choice!r}")
    try:
        check_provider(choice, f"{choice!r}")
    except BackendError as cause:
        raise ConfigError(str(cause)) from cause
    return choice, {}


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in options.items()}
