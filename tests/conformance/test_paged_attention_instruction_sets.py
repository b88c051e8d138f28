"""Paged attention on every instruction set that this machine has, each in a process of its own.

Integer sums are exact and floats are multiplied and added in one order, so all give the same bits; GENERIC may round a
multiply-add twice.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from onnxgen.foundations.cpuinfo import detect_cpu
from onnxgen.graph.cpu.isa import ISA_VARIABLE, Isa, host_isa
from onnxgen.graph.cpu.paged_attention import PagedAttention
from paged_attention_runs import Cache, Chunk, StepRun, Tables, expected

OTHERS = [isa for isa in Isa if isa.runs_on(detect_cpu().features) and isa is not host_isa()]

ATTENTIONS = [
    PagedAttention(7, 1, 96, 32, norm=True, rotary_dim=32, softcap=3.0, window=200),
    PagedAttention(4, 2, 96, 32, norm=True, rotary_dim=32, softcap=3.0),
    PagedAttention(6, 2, 64, 64, norm=True, rotary_dim=32, bits=8),
]
"""Heads and windows are told to kernels when they run; sizes, bits and caps are compiled, for each instruction set anew."""


def attended(seed: int) -> list[np.ndarray]:
    """Pages and rows of a prompt and a token after it, for each attention."""
    rng, results = np.random.default_rng(seed), []
    for attention in ATTENTIONS:
        rows, tables = inputs(rng, attention)
        cache = Cache(attention, 6, 64, garbage=0)
        blocks = [3, 0, 5, 1, 4]
        results.append(StepRun(cache, [Chunk(rows[:-1], 0, blocks)], tables).run(parts=2))
        results.append(StepRun(cache, [Chunk(rows[-1:], len(rows) - 1, blocks)], tables).run(parts=3))
        results.append(cache.memory)
    return results


def inputs(rng: np.random.Generator, attention: PagedAttention) -> tuple[np.ndarray, Tables]:
    a = attention
    width = (a.heads + a.kv_heads) * a.head_dim + a.kv_heads * a.value_dim
    angles = rng.uniform(0, 7, (300, 16))
    norms = rng.uniform(0.5, 2, (2, a.head_dim)).astype(np.float32)
    tables = Tables(np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32), *norms)
    return rng.standard_normal((300, width), dtype=np.float32), tables


PROGRAM = """
import sys, numpy
from test_paged_attention_instruction_sets import attended
from onnxgen.graph.cpu.isa import host_isa
assert host_isa().value == sys.argv[3], host_isa()
numpy.savez(sys.argv[2], *attended(int(sys.argv[1])))
"""


@pytest.mark.parametrize("isa", OTHERS, ids=lambda isa: isa.value)
def test_an_instruction_set_gives_the_bits_of_the_others(isa, tmp_path):
    seed = int(np.random.default_rng().integers(1 << 32))
    print(f"random data of seed {seed}")
    mine = attended(seed)
    paths = [Path(__file__).parent, Path(__file__).parents[1], *map(Path, sys.path)]
    environment = {
        **os.environ,
        ISA_VARIABLE: isa.value,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
    }
    file = tmp_path / "results.npz"
    command = [sys.executable, "-c", PROGRAM, str(seed), str(file), isa.value]
    subprocess.run(command, env=environment, check=True)
    with np.load(file) as archive:
        theirs = [archive[name] for name in archive.files]
    if isa is not Isa.GENERIC:
        for result, other in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(other, result)
    rng = np.random.default_rng(seed)
    for attention, prompt, last in zip(ATTENTIONS, theirs[::3], theirs[1::3], strict=True):
        wanted = expected(attention, *inputs(rng, attention))
        error = np.linalg.norm(np.concatenate([prompt, last]) - wanted) / np.linalg.norm(wanted)
        assert error < (6e-4 if attention.bits == 16 else 2e-2)
