"""The processor from Windows' records, made up."""

import struct
import sys

import pytest

from onnxgen.foundations.cpu_facts import CacheInfo
from onnxgen.foundations.cpu_windows import parse_records, read_windows


def record(mask, relation, union=b""):
    return struct.pack("<QIxxxx16s", mask, relation, union)


def cache(level, size, kind):
    return struct.pack("<BBHII", level, 8, 64, size, kind)


RECORDS = (
    record(0b0011, 0)
    + record(0b1100, 0)
    + record(0b0011, 2, cache(2, 1 << 20, 0))
    + record(0b0011, 2, cache(1, 32768, 2))
    + record(0b1100, 2, cache(1, 32768, 2))
    + record(0b1111, 1)
)


def test_cores_and_caches():
    assert parse_records(RECORDS, 0b1111) == (
        2,
        (CacheInfo(1, "data", 32768, 2), CacheInfo(2, "unified", 1 << 20, 2)),
    )


def test_affinity_leaves_fewer():
    assert parse_records(RECORDS, 0b1000) == (1, (CacheInfo(1, "data", 32768, 2),))


@pytest.mark.parametrize("raw", [b"", RECORDS[:7]])
def test_no_whole_record_says_nothing(raw):
    assert parse_records(raw, 1) == (0, ())


@pytest.mark.skipif(sys.platform != "win32", reason="asks the system")
def test_this_machine():
    cpu = read_windows()
    assert 1 <= cpu.physical_cores <= cpu.logical_cores
