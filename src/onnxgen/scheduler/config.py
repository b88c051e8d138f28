"""Budgets and rules of scheduling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast, get_args

from onnxgen.errors import ConfigError
from onnxgen.foundations.suggest import did_you_mean

Preemption = Literal["auto", "swap", "recompute", "off"]


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """Budgets and rules; all of them can be changed while requests run.

    Attributes:
        max_seqs: Sequences that run at once.
        max_step_tokens: Tokens of a step, decodes and chunks of prompts together, and drafts in what these leave.
        chunk_tokens: Tokens of a sequence in one step, so that a long prompt does not hold up the others.
        max_cache_bytes: Cache that running sequences hold, each one counted whole; None: the pool is the limit.
        max_waiting: Jobs that wait for admission; None: any number.
        policy: Who is admitted first and gives way last: ``"fcfs"``, ``"priority"``, ``"fair"``, or one's own as
            ``"package.module:Class"``.
        tenant_weights: For ``"fair"``: shares of tenants; others weigh 1.
        aging_steps: For ``"priority"``: this many steps of waiting make up for one priority; None: none do, and
            a stream of urgent jobs starves the others.
        preemption: What becomes of a sequence that gives way: ``"swap"`` to a tier where there is room,
            ``"recompute"`` later, ``"auto"``: whichever is estimated to be faster. ``"off"``: a job is admitted
            when there is room for the longest answer it may give, so that none has to give way.
        wait_for_prefix: A newcomer waits while a neighbour computes a prefix that it shares.
        solo: One sequence a step, its prompt in chunks of exactly ``chunk_tokens`` and its answer token by token,
            also when it is computed again: so it gets the same bits among others as alone, on any backend.
    """

    max_seqs: int = 32
    max_step_tokens: int = 512
    chunk_tokens: int = 512
    max_cache_bytes: int | None = None
    max_waiting: int | None = None
    policy: str = "fcfs"
    tenant_weights: Mapping[str, float] = field(default_factory=dict[str, float])
    aging_steps: int | None = 512
    preemption: Preemption = "auto"
    wait_for_prefix: bool = True
    solo: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot work.

        Raises:
            ConfigError: Naming the field and its value.
        """
        for name in ("max_seqs", "max_step_tokens", "chunk_tokens"):
            check_count(name, getattr(self, name), least=1)
        for name, least in (("max_cache_bytes", 1), ("max_waiting", 0), ("aging_steps", 1)):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), least=least)
        for name in ("wait_for_prefix", "solo"):
            check_switch(name, getattr(self, name))
        if not isinstance(self.policy, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may have no checker
            raise ConfigError(f"policy is {self.policy!r}; it must be a name")
        _check_weights(self.tenant_weights)
        if self.max_step_tokens < self.max_seqs:
            raise ConfigError(
                f"max_step_tokens is {self.max_step_tokens}, but max_seqs={self.max_seqs} sequences take one token "
                "each per step; raise the one or lower the other"
            )
        if self.solo and self.max_step_tokens < self.chunk_tokens:
            raise ConfigError(
                f"solo cuts prompts into chunks of exactly chunk_tokens={self.chunk_tokens} tokens, but a step has at "
                f"most max_step_tokens={self.max_step_tokens}; raise the one or lower the other"
            )
        if self.preemption not in get_args(Preemption):
            raise ConfigError(
                f"preemption is {self.preemption!r}; it is one of {', '.join(get_args(Preemption))}"
                f"{did_you_mean(str(self.preemption), get_args(Preemption))}"
            )


def check_count(name: str, value: object, *, least: int) -> None:
    """A field is an integer of at least ``least``; a bool is none.

    Raises:
        ConfigError: It is something else.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name} is {value!r}; it must be an integer of at least {least}")
    if value < least:
        raise ConfigError(f"{name} is {value}; it must be at least {least}")


def check_switch(name: str, value: object) -> None:
    """A field is True or False.

    Raises:
        ConfigError: It is something else.
    """
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}; it must be True or False")


def _check_weights(weights: object) -> None:
    if not isinstance(weights, Mapping):
        raise ConfigError(f"tenant_weights is {weights!r}; it must map tenants to weights")
    for tenant, weight in cast("Mapping[object, object]", weights).items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < float("inf"):
            raise ConfigError(f"tenant_weights[{tenant!r}] is {weight!r}; a weight is a positive number")
