"""What the three ways to run a step have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy.typing as npt

from onnxgen.backends.base import EMBEDS_ROWS, INPUTS_EMBEDS, Capabilities, KVCache, Step, StepOutput
from onnxgen.backends.ort.prepare import Prepared
from onnxgen.backends.ort.session import OrtSession
from onnxgen.backends.ort.slots import SlotCache


@dataclass(frozen=True, slots=True)
class LoadedDecoder:
    """What a plan is made of.

    Attributes:
        session: A session of the prepared graph.
        prepared: That graph, rewritten for the plan.
        vocab_size: Width of the logits.
        max_context: The longest sequence, in tokens.
        switch_length: Longer sequences use other rotary tables, and run in calls of their own; None for a model
            without a switch.
        memory_limit_mb: Cap on cache memory in MiB; None for no cap.
        tag: Keeps calls of different adapters on one cache apart.
    """

    session: OrtSession
    prepared: Prepared
    vocab_size: int
    max_context: int
    switch_length: int | None
    memory_limit_mb: int | None
    tag: object = None

    def with_inputs(self, given: Mapping[str, tuple[npt.NDArray[Any], int]]) -> LoadedDecoder:
        """The same session with values of some inputs for all runs; see `OrtSession.with_inputs`."""
        return replace(self, session=self.session.with_inputs(given), tag=object())

    def capabilities(self, *, ragged: bool, rewindable: bool = True) -> Capabilities:
        """What a plan offers that keeps every sequence in one slot.

        Args:
            ragged: Whether one call takes sequences with different numbers of new tokens.
            rewindable: Whether the cache is kept by position, so that it can be rewound.
        """
        width = self.prepared.embedding_size
        row_widths = {port.role: port.width for port in self.prepared.ports.rows}
        required = frozenset(port.name for port in self.prepared.ports.required)
        return Capabilities(
            ragged=ragged,
            paged=False,
            rewind=rewindable,
            copy_blocks=True,
            hidden_states=self.prepared.ports.hidden_states is not None,
            max_context=self.max_context,
            inputs=frozenset(row_widths)
            | (frozenset() if width is None else frozenset({INPUTS_EMBEDS, EMBEDS_ROWS})),
            row_widths=row_widths,
            embedding_size=width,
            adapters="step",
            extra_inputs=frozenset((*required, *self.prepared.settled)),
            required_inputs=required,
        )

    def slot_cache(self, *, num_slots: int, capacity: int, owner: Plan) -> SlotCache:
        """Allocate ``num_slots`` contiguous slots of ``capacity`` positions for a plan."""
        return SlotCache(
            self.prepared.ports.states,
            num_slots=num_slots,
            capacity=capacity,
            limit_mb=self.memory_limit_mb,
            owner=owner,
        )


class Plan(Protocol):
    """Executes checked steps with one session. Called by one thread at a time."""

    @property
    def capabilities(self) -> Capabilities:
        """What callers may rely on."""
        ...

    def create_cache(self, *, num_seqs: int, num_tokens: int) -> KVCache:
        """Allocate a cache that `execute` of this plan understands."""
        ...

    def repeat(self, step: Step, cache: KVCache) -> StepOutput | None:
        """Run an unchecked step that is like a checked one before it; None: check and `execute` it."""
        ...

    def execute(self, step: Step, cache: KVCache) -> StepOutput:
        """Run a step that `check_step` found nothing against."""
        ...
