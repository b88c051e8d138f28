"""Who is admitted first and gives way last: one file per policy, found by name.

A policy knows jobs, their tenants and priorities; it knows no budgets and no blocks.
"""

from __future__ import annotations

import importlib
from typing import cast

from onnxgen.errors import ConfigError
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.policies.base import Policy, PolicyFactory
from onnxgen.scheduler.policies.fair import FairPolicy
from onnxgen.scheduler.policies.fcfs import FcfsPolicy
from onnxgen.scheduler.policies.priority import PriorityPolicy

_BUILT_IN: dict[str, PolicyFactory] = {"fcfs": FcfsPolicy, "priority": PriorityPolicy, "fair": FairPolicy}


def policy_names() -> tuple[str, ...]:
    """Names of the policies that come with the package."""
    return tuple(_BUILT_IN)


def make_policy(config: SchedulerConfig) -> Policy:
    """The policy that ``config`` names.

    Raises:
        ConfigError: There is none of that name, or nothing at that ``package.module:Class``.
    """
    return _find(config.policy)(config)


def policy_changes(old: SchedulerConfig, new: SchedulerConfig) -> bool:
    """Whether a policy made for ``old`` cannot go on under ``new``. A new one starts with empty accounts."""
    return (old.policy, old.tenant_weights, old.aging_steps) != (
        new.policy,
        new.tenant_weights,
        new.aging_steps,
    )


def _find(name: str) -> PolicyFactory:
    if factory := _BUILT_IN.get(name):
        return factory
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ConfigError(
            f"unknown scheduling policy {name!r}; known are {', '.join(_BUILT_IN)}, and your own as "
            f"'package.module:Class'{did_you_mean(name, _BUILT_IN)}"
        )
    try:
        return cast(PolicyFactory, getattr(importlib.import_module(module), attribute))
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"scheduling policy {name!r} cannot be imported: {error}") from error
