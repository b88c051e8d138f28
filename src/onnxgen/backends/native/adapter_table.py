"""`AdapterTable`: the adapters of a plan, and a table beside the plain one that adds what they say.

Which adapter a row has is said by every step, so that one pass serves sequences of different adapters and of none:
each call finds what to add by the adapter's number, in records::

    records   [site 0: adapter 0 | adapter 1 | ...] [site 1: adapter 0 | ...] ...      addresses, and how high the rank is

The table is made when the first adapter comes, and again when one comes that adds to other products or has a higher
rank. It shares all weights with the plain table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from onnxgen.backends.adapters import Adapter
from onnxgen.backends.lora_places import place_pairs
from onnxgen.backends.native.adapted_plan import LoraSite, adapt_plan, linears_of, sites_for
from onnxgen.backends.native.bound_table import BoundTable
from onnxgen.backends.native.plan import StepPlan
from onnxgen.errors import CapabilityError
from onnxgen.graph.cpu.lora import RECORD_WORDS, PackedLora, pack_lora


@dataclass(slots=True, eq=False)
class NativeAdapter:
    """A packed adapter.

    Attributes:
        number: Its place in the records, as long as it is loaded.
        packed: What it adds, by product.
    """

    number: int
    packed: Mapping[LoraSite, PackedLora] = field(repr=False)


class AdapterTable:
    """The adapters of a plan. Not safe to use while a step runs.

    Args:
        plan: The plain plan.
        bind: Makes a table of a plan.
    """

    def __init__(self, plan: StepPlan, *, bind: Callable[[StepPlan], BoundTable]) -> None:
        self._plan, self._bind = plan, bind
        self._adapters: dict[int, NativeAdapter] = {}
        self._ranks: dict[LoraSite, int] = {}
        self._sites: tuple[LoraSite, ...] = ()
        self._table: BoundTable | None = None
        self._records = np.zeros((0, 0, RECORD_WORDS), np.int64)

    @property
    def table(self) -> BoundTable:
        """The table for passes with adapters."""
        assert self._table is not None, "a step names adapters that are loaded"
        return self._table

    def pack(self, adapter: Adapter) -> Mapping[LoraSite, PackedLora]:
        """What an adapter adds, in the form that kernels read. May be called while a step runs.

        Raises:
            ModelFileError: It does not fit the model.
            CapabilityError: It has values for inputs of a graph.
        """
        if adapter.inputs:
            raise CapabilityError(
                f"{adapter.source} has values for inputs of a graph, which only the ort backend reads from adapters: run "
                "the folder with backend=ort"
            )
        pairs = place_pairs(adapter, linears_of(self._plan))
        packed: dict[LoraSite, PackedLora] = {}
        for site in sites_for(self._plan, pairs.keys()):
            joined = site.joined(pairs)
            if joined is not None:
                packed[site] = pack_lora(*joined)
        return packed

    def add(self, packed: Mapping[LoraSite, PackedLora]) -> NativeAdapter:
        """Take a packed adapter in."""
        number = next(i for i in range(len(self._adapters) + 1) if i not in self._adapters)
        needed = {site: len(own.a) for site, own in packed.items()}
        grown = self._ranks | {site: max(rank, self._ranks.get(site, 0)) for site, rank in needed.items()}
        if self._table is None or grown != self._ranks:
            plan, sites = adapt_plan(self._plan, grown)
            self._table, self._sites, self._ranks = self._bind(plan), sites, grown
        own = self._adapters[number] = NativeAdapter(number, packed)
        self._write()
        return own

    def remove(self, adapter: NativeAdapter) -> None:
        """Forget an adapter, and with the last one the table."""
        del self._adapters[adapter.number]
        if not self._adapters:
            self._table, self._sites, self._ranks = None, (), {}
            return
        self._write()

    def _write(self) -> None:
        """Write the records anew, and tell the rows of the table where theirs are."""
        most = max(self._adapters) + 1
        records = np.zeros((len(self._sites), most, RECORD_WORDS), np.int64)
        for number, adapter in self._adapters.items():
            for index, site in enumerate(self._sites):
                if site in adapter.packed:
                    records[index, number] = adapter.packed[site].record
        binding = self.table.binding
        for site, row in binding.adapter_rows:
            binding.builder.table.set(row, "records", records[site].ctypes.data)
        self._records = records
