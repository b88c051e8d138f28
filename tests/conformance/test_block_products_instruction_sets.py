"""Products with quantized matrices on every instruction set that this machine has, each in a process of its own.

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

from block_products import Activations, multiply, random_matrix, weights_of
from onnxgen.foundations.cpuinfo import detect_cpu
from onnxgen.graph.cpu.isa import ISA_VARIABLE, Isa, host_isa
from onnxgen.graph.cpu.packed_blocks import pack

CASES = [
    (4, 32, "middle", False, 3),
    (4, 64, "bytes", True, 3),
    (8, 32, "bytes", False, None),
    (2, 16, "offsets", False, None),
]
"""Bits, block, zeros, words, and from how many rows on panels are unpacked: once for bytes and once for words, as what is
unpacked is multiplied by the same instructions whatever it was."""

OTHERS = [isa for isa in Isa if isa.runs_on(detect_cpu().features) and isa is not host_isa()]


def products(seed):
    """Results of all cases for 1 to 7 rows, from panels as they are and unpacked; and the exact ones."""
    rng = np.random.default_rng(seed)
    results, expected = [], []
    for bits, block, zeros, words, unpack_from in CASES:
        matrix = random_matrix(rng, 100, 330, bits, block, zeros)
        packed = pack([matrix], words=words)
        x = rng.standard_normal((7, 330)).astype(np.float32)
        for rows in (1, 2, 7):
            quantized = Activations(x[:rows], packed.form.group, words=words)
            results.append(multiply(packed, quantized, unpack_from=unpack_from))
            expected.append(x[:rows].astype(float) @ weights_of(matrix).T)
    return results, expected


PROGRAM = """
import sys, numpy
from test_block_products_instruction_sets import products
from onnxgen.graph.cpu.isa import host_isa
assert host_isa().value == sys.argv[3], host_isa()
numpy.savez(sys.argv[2], *products(int(sys.argv[1]))[0])
"""


@pytest.mark.parametrize("isa", OTHERS, ids=lambda isa: isa.value)
def test_an_instruction_set_gives_the_bits_of_the_others(isa, tmp_path):
    seed = int(np.random.SeedSequence().entropy % 2**32)
    print(f"random data of seed {seed}")
    mine, expected = products(seed)
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
    assert len(theirs) == len(mine)
    for result, other, exact in zip(mine, theirs, expected, strict=True):
        if isa is Isa.GENERIC:
            np.testing.assert_allclose(other, result, rtol=2e-5, atol=2e-6)
        else:
            np.testing.assert_array_equal(other, result)
        assert np.sqrt(((other - exact) ** 2).mean() / (exact**2).mean()) < 2e-2
