"""A plan whose products take what adapters add: the same weights, and a few calls more.

    h = lora_down(x)      few columns, of rows that have an adapter
    y = x @ w
    y += lora_up(h)

What fusing took away comes back where an adapter needs it: activations in floats beside the integers, and the sums of
a gate before they are gated, which lie tile by tile as the matrix does::

    y = silu(x @ gate) * (x @ up)    ->    t = x @ [gate | up]; t += lora_up(h); y = gated_tiles(t)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnxgen.backends.adapters import LoraPair
from onnxgen.backends.lora_places import Linear, spot_of_node
from onnxgen.backends.native.fuse.edits import changed
from onnxgen.backends.native.plan import (
    BlockMatrix,
    Buffer,
    Call,
    Family,
    FloatMatrix,
    StepPlan,
    View,
    Weight,
)

LANES = 16
_PRODUCT = re.compile(r"(?:.*/)?(?:Fused)?(?:MatMul|Gemm)[^/]*")


@dataclass(frozen=True, slots=True)
class LoraSite:
    """A product that something may be added to.

    Attributes:
        nodes: The products of the graph that it stands for, in the order of their columns.
        widths: How many columns each has.
        depth: Columns of its input.
        interleaved: Tiles of its two products take turns.
    """

    nodes: tuple[str, ...]
    widths: tuple[int, ...]
    depth: int
    interleaved: bool

    @property
    def width(self) -> int:
        """Columns of its result before it is gated."""
        return len(self.widths) * tiles_of(self.widths[0]) * LANES if self.interleaved else sum(self.widths)

    def joined(self, pairs: Mapping[str, LoraPair]) -> tuple[np.ndarray, np.ndarray] | None:
        """What is added to all of its columns: A ``[rank, depth]``, B ``[width, rank]``; None for nothing."""
        own = [(part, pairs[node]) for part, node in enumerate(self.nodes) if node in pairs]
        if not own:
            return None
        b = np.zeros((self.width, sum(pair.rank for _, pair in own)), np.float32)
        at = 0
        for part, pair in own:
            b[self._columns(part), at : at + pair.rank] = pair.b
            at += pair.rank
        return np.concatenate([pair.a for _, pair in own]), b

    def _columns(self, part: int) -> np.ndarray:
        columns = np.arange(self.widths[part])
        if self.interleaved:
            return (columns // LANES * len(self.widths) + part) * LANES + columns % LANES
        return columns + sum(self.widths[:part])


def tiles_of(width: int) -> int:
    """Tiles of 16 columns."""
    return -(-width // LANES)


def linears_of(plan: StepPlan) -> list[Linear]:
    """The products of a plan that are known by the names of their nodes."""
    heads = {
        spot[0]: (call.number("heads"), call.number("kv_heads"))
        for call in plan.calls
        if call.family is Family.ATTEND and call.nodes and (spot := spot_of_node(call.nodes[-1])) is not None
    }
    linears: list[Linear] = []
    for call in plan.calls:
        site = site_of(plan, call)
        if site is None:
            continue
        for node, width in zip(site.nodes, site.widths, strict=True):
            spot = spot_of_node(node)
            if spot is not None:
                linears.append(Linear(node, site.depth, width, heads=heads.get(spot[0])))
    return linears


def site_of(plan: StepPlan, call: Call) -> LoraSite | None:
    """What a call is to adapters; None where it is no product of nodes that can be told."""
    if call.family is not Family.PRODUCT:
        return None
    weight = plan.weights[call.weights["matrix"]]
    nodes = [node for node in call.nodes if _PRODUCT.fullmatch(node)]
    if weight.interleaved:
        nodes.reverse()  # its parts are the gate and what it gates, its nodes come the other way round
    widths, depth = _sizes(weight)
    return None if len(nodes) != len(widths) else LoraSite(tuple(nodes), widths, depth, weight.interleaved)


def adapt_plan(plan: StepPlan, ranks: Mapping[LoraSite, int]) -> tuple[StepPlan, tuple[LoraSite, ...]]:
    """The plan with calls that add to some products.

    Args:
        plan: A fused plan.
        ranks: The highest rank of what may be added, in tiles of 16, by site.

    Returns:
        The plan, and the sites in the order of the calls' parameter ``site``.
    """
    made = _Adapting(plan)
    for call in plan.calls:
        site = site_of(plan, call)
        if site is not None and site in ranks:
            made.add_to(call, site, ranks[site])
        else:
            made.calls.append(call)
    return replace(plan, calls=tuple(made.calls), buffers=made.buffers), tuple(made.sites)


class _Adapting:
    def __init__(self, plan: StepPlan) -> None:
        self.calls: list[Call] = []
        self.buffers = dict(plan.buffers)
        self.sites: list[LoraSite] = []

    def add_to(self, call: Call, site: LoraSite, rank_tiles: int) -> None:
        number = len(self.sites)
        self.sites.append(site)
        x = self._floats(call.reads["x"])
        h = self._buffer(f"lora.{number}", call, rank_tiles * LANES)
        about = {"site": number, "most": rank_tiles}
        self.calls.append(Call(Family.LORA_DOWN, call.rows, {"x": x}, {"h": h}, {}, about, site.nodes))
        function = call.text("epilogue")
        if not function:
            self.calls.append(call)
            y = call.writes["y"]
            self.calls.append(
                Call(Family.LORA_UP, call.rows, {"h": h, "x": y}, {"y": y}, {}, about, site.nodes)
            )
            return
        t = self._buffer(f"gates.{number}", call, site.width)
        self.calls.append(changed(call, writes={"y": t}, epilogue=""))
        self.calls.append(Call(Family.LORA_UP, call.rows, {"h": h, "x": t}, {"y": t}, {}, about, site.nodes))
        self.calls.append(
            Call(Family.GATE_TILES, call.rows, {"x": t}, call.writes, {}, {"function": function}, call.nodes)
        )

    def _floats(self, x: View) -> View:
        """The rows of floats behind what a product reads, which may be integers."""
        if not self.buffers[x.buffer].group:
            return x
        at = max(i for i, c in enumerate(self.calls) if any(v.buffer == x.buffer for v in c.writes.values()))
        maker = self.calls[at]
        if maker.family is Family.QUANTIZE:
            return maker.reads["x"]
        if "y" not in maker.writes:
            y = self._buffer(f"{x.buffer}.floats", maker, x.width)
            self.calls[at] = maker = replace(maker, writes={**maker.writes, "y": y})
        return maker.writes["y"]

    def _buffer(self, name: str, call: Call, width: int) -> View:
        assert name not in self.buffers, name
        self.buffers[name] = Buffer(call.rows, width)
        return View(name, 0, width)


def _sizes(weight: Weight) -> tuple[tuple[int, ...], int]:
    parts = [part for part in weight.parts if isinstance(part, BlockMatrix | FloatMatrix)]
    return tuple(part.rows for part in parts), parts[0].columns


def sites_for(plan: StepPlan, nodes: Collection[str]) -> Sequence[LoraSite]:
    """The sites that some nodes belong to."""
    sites = [site_of(plan, call) for call in plan.calls]
    return [site for site in sites if site is not None and not set(site.nodes).isdisjoint(nodes)]
