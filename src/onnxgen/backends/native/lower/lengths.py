"""Values that follow from lengths alone, worked out for a few sequences instead of being recognized by their form.

Exporters compute the lengths that attention takes from the mask in many ways: sums, shapes, comparisons. A step
knows its lengths, so all that matters is *what* such a value is: the nodes are run for a few sample sequences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnxgen.backends.native.lower.meanings import Constant, DeclineError, Known, Meaning, Sample
from onnxgen.graph.ep.from_graph import node_spec
from onnxgen.graph.ep.provider import Decline

_MOST_ELEMENTS = 1 << 20


def make_samples(*, longest: int, switch_length: int | None) -> tuple[Sample, ...]:
    """Sequences of different lengths up to the longest one, around the switch of rotary tables if there is one."""
    samples = [Sample(0, 3), Sample(4, 1), Sample(7, 2), Sample(0, 1), Sample(longest - 1, 1)]
    if switch_length is not None:
        samples += [Sample(switch_length - 1, 1), Sample(switch_length, 1), Sample(0, switch_length + 2)]
    return tuple(samples)


def work_out(
    node: ir.Node,
    inputs: Sequence[Meaning | None],
    *,
    samples: tuple[Sample, ...],
    opsets: Mapping[str, int],
) -> list[Known]:
    """What a node gives for each sample.

    Raises:
        DeclineError: There is no kernel for the node, or its results are large.
    """
    from onnxgen.graph.cpu.provider import CpuProvider

    provider, spec = CpuProvider(), node_spec(node, opsets)
    claim = provider.claim(spec)
    if isinstance(claim, Decline):
        raise DeclineError(f"lengths cannot be computed with it: {claim.reason}")
    kernel = provider.compile(spec, claim)
    results: list[list[np.ndarray]] = []
    for i in range(len(samples)):
        given = [None if m is None else _value(m, i) for m in inputs]
        outputs = kernel.run(*given)
        results.append(list(outputs) if isinstance(outputs, tuple) else [outputs])
    if any(r.size > _MOST_ELEMENTS for result in results for r in result):
        raise DeclineError("its results are large and follow from lengths alone")
    return [Known(tuple(np.asarray(r) for r in values)) for values in zip(*results, strict=True)]


def follows_from_lengths(meaning: Meaning | None) -> bool:
    """Whether the meaning is such a value."""
    return meaning is None or isinstance(meaning, Known | Constant)


def _value(meaning: Meaning, sample: int) -> np.ndarray:
    if isinstance(meaning, Known):
        return meaning.values[sample]
    assert isinstance(meaning, Constant)
    return meaning.array


def is_for_each(meaning: Meaning | None, wanted: Sequence[int | Sequence[int]]) -> bool:
    """Whether a value has, for each sample, the wanted number (or numbers, under any shape)."""
    if isinstance(meaning, Constant):
        values: Sequence[np.ndarray] = [meaning.array] * len(wanted)
    elif isinstance(meaning, Known):
        values = meaning.values
    else:
        return False
    numbers = [np.array(w, np.int64).reshape(-1) for w in wanted]
    return all(np.array_equal(v.reshape(-1), n) for v, n in zip(values, numbers, strict=True))
