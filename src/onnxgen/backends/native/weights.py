"""Weights of a plan, packed for the kernels that read them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import Queue

import numpy as np

from onnxgen.backends.native.plan import (
    BlockMatrix,
    Elements,
    Family,
    FloatMatrix,
    Part,
    StepPlan,
    Vector,
    Weight,
)
from onnxgen.backends.native.weight_files import WeightFiles, num_bytes
from onnxgen.graph.cpu import packed_blocks, packed_floats
from onnxgen.graph.cpu.aligned_memory import Arena
from onnxgen.graph.cpu.packed_blocks import PackedBlocks
from onnxgen.graph.cpu.packed_floats import PackedFloats

TILE = 16
PANEL = 64

Packed = PackedBlocks | PackedFloats | np.ndarray
"""Matrices for products; float32 vectors and tables, or a table of 16-bit floats for embeddings."""

_READ_AHEAD = 1


@dataclass(frozen=True, slots=True)
class Weights:
    """Packed weights by name, and the arrays that hold them."""

    packed: Mapping[str, Packed]

    @property
    def num_bytes(self) -> int:
        """Size of the packed matrices, vectors and tables; of a mapped table only what is used is in memory."""
        return sum(
            w.num_bytes if isinstance(w, PackedBlocks | PackedFloats) else w.nbytes
            for w in self.packed.values()
        )


def load_weights(plan: StepPlan, files: WeightFiles, *, threads: int) -> Weights:
    """Read and pack every weight; one is read while the one before is packed.

    Raises:
        ModelFileError: A file is missing or too short.
        KernelError: A matrix is of a kind that there are no kernels for.
    """
    jobs = _jobs(plan)
    packed: dict[str, Packed] = {}
    memory = Arena()
    for (name, job), arrays in zip(jobs.items(), _read_ahead(list(jobs.values()), files), strict=True):
        packed[name] = _pack(job, arrays, memory, threads=threads)
    return Weights(packed)


@dataclass(frozen=True, slots=True)
class _Job:
    weight: Weight
    product: bool
    words: bool
    """Activations of a product of blocks are int16."""


def _jobs(plan: StepPlan) -> dict[str, _Job]:
    jobs: dict[str, _Job] = {}
    for call in plan.calls:
        for role, name in call.weights.items():
            product = call.family is Family.PRODUCT and role == "matrix"
            words = product and plan.buffers[call.reads["x"].buffer].elements is Elements.INT16
            if name not in jobs or product:
                jobs[name] = _Job(plan.weights[name], product, words)
    # The largest first, while little else is in memory: what is read and what is packed are there at once.
    return dict(sorted(jobs.items(), key=lambda item: -_stored_bytes(item[1].weight)))


def _stored_bytes(weight: Weight) -> int:
    return sum(
        num_bytes(stored)
        for part in weight.parts
        for stored in ((part.codes, part.scales) if isinstance(part, BlockMatrix) else (part.values,))
    )


def _read_ahead(jobs: Sequence[_Job], files: WeightFiles) -> Iterator[list[list[np.ndarray | None]]]:
    """The arrays of each part of each job, in order, read by a thread of their own."""
    ready: Queue[list[list[np.ndarray | None]] | BaseException] = Queue(_READ_AHEAD)
    wanted = threading.Event()
    wanted.set()

    def read() -> None:
        try:
            for job in jobs:
                if not wanted.is_set():
                    return
                ready.put([_arrays(part, files, mapped=not job.product) for part in job.weight.parts])
        except BaseException as cause:  # noqa: BLE001 - raised where the arrays are asked for
            ready.put(cause)

    reader = threading.Thread(target=read, name="onnxgen-weights", daemon=True)
    reader.start()
    try:
        for _ in jobs:
            arrays = ready.get()
            if isinstance(arrays, BaseException):
                raise arrays
            yield arrays
    finally:
        wanted.clear()
        while reader.is_alive():
            if not ready.empty():
                ready.get()
            reader.join(0.001)


def _arrays(part: Part, files: WeightFiles, *, mapped: bool) -> list[np.ndarray | None]:
    if isinstance(part, BlockMatrix):
        return [None if s is None else files.read(s) for s in (part.codes, part.scales, part.zeros)]
    values = part.values
    return [files.mapped(values) if mapped and isinstance(part, FloatMatrix) else files.read(values)]


def _pack(job: _Job, arrays: Sequence[Sequence[np.ndarray | None]], memory: Arena, *, threads: int) -> Packed:
    parts = job.weight.parts
    if isinstance(parts[0], BlockMatrix):
        matrices = [
            _matrix(part, own)
            for part, own in zip(parts, arrays, strict=True)
            if isinstance(part, BlockMatrix)
        ]
        return packed_blocks.pack(
            matrices,
            words=job.words,
            interleave=job.weight.interleaved,
            threads=threads,
            allocate=memory.allocate,
        )
    if isinstance(parts[0], FloatMatrix):
        by_column = [
            _oriented(part, own)
            for part, own in zip(parts, arrays, strict=True)
            if isinstance(part, FloatMatrix)
        ]
        if not job.product:
            return np.ascontiguousarray(by_column[0])  # a view of the map unless it is transposed
        return packed_floats.pack(
            by_column, interleave=job.weight.interleaved, threads=threads, allocate=memory.allocate
        )
    vectors = [
        _vector(part, own) for part, own in zip(parts, arrays, strict=True) if isinstance(part, Vector)
    ]
    if job.weight.interleaved:
        return _interleaved(vectors)
    return _padded(vectors[0] if len(vectors) == 1 else np.concatenate(vectors))


def _matrix(part: BlockMatrix, arrays: Sequence[np.ndarray | None]) -> packed_blocks.BlockMatrix:
    codes, scales, zeros = arrays
    assert codes is not None
    assert scales is not None
    blocks = -(-part.columns // part.block_size)
    return packed_blocks.BlockMatrix(
        codes.reshape(part.rows, blocks, -1), scales, zeros, part.columns, part.bits, part.block_size
    )


def _oriented(part: FloatMatrix, arrays: Sequence[np.ndarray | None]) -> np.ndarray:
    """``[rows, columns]``."""
    (values,) = arrays
    assert values is not None
    return values.T if part.transposed else values


def _vector(part: Vector, arrays: Sequence[np.ndarray | None]) -> np.ndarray:
    (values,) = arrays
    assert values is not None
    values = values.astype(np.float32, copy=False)
    return values if part.factor == 1.0 else values * np.float32(part.factor)


def _interleaved(vectors: Sequence[np.ndarray]) -> np.ndarray:
    """Two vectors whose tiles of 16 take turns, filled up with zeros to whole panels."""
    tiles = -(-len(vectors[0]) // TILE)
    both = np.zeros((tiles, 2, TILE), np.float32)
    for which, vector in enumerate(vectors):
        padded = np.zeros(tiles * TILE, np.float32)
        padded[: len(vector)] = vector
        both[:, which] = padded.reshape(tiles, TILE)
    return _padded(both.reshape(-1))


def _padded(values: np.ndarray) -> np.ndarray:
    """With zeros behind a vector up to a whole panel, which kernels may read; tables stay as they are."""
    if values.ndim > 1 or values.size % PANEL == 0:
        return np.ascontiguousarray(values)
    return np.concatenate([values, np.zeros(-values.size % PANEL, np.float32)])
