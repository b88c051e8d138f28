"""Memory for kernels."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from onnxgen.graph.cpu.aligned_memory import HUGE_PAGE_BYTES, LINE_BYTES, Arena, aligned


def test_small_memory_begins_at_a_cache_line():
    for size in (1, 100, 70_000):
        memory = aligned(size)
        assert memory.size == size
        assert memory.ctypes.data % LINE_BYTES == 0
        assert not memory.any()


def test_large_memory_begins_at_a_huge_page_and_can_be_written():
    memory = aligned(3 * HUGE_PAGE_BYTES + 5)
    assert memory.ctypes.data % HUGE_PAGE_BYTES == 0
    assert memory.size == 3 * HUGE_PAGE_BYTES + 5
    assert not memory.any()
    memory[:] = 1


def test_arrays_of_an_arena_lie_side_by_side_and_never_on_each_other():
    arena = Arena(1 << 20)
    sizes = [100, 64, 1, 700_000, 400_000, 3 << 20, 5]
    arrays = [arena.allocate(size) for size in sizes]
    for index, (array, size) in enumerate(zip(arrays, sizes, strict=True)):
        assert array.size == size
        assert array.ctypes.data % LINE_BYTES == 0
        assert not array.any()
        array[:] = index + 1
    assert all((array == index + 1).all() for index, array in enumerate(arrays))
    assert arrays[1].ctypes.data == arrays[0].ctypes.data + 128


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says which pages are huge")
def test_large_memory_is_private_to_the_process_and_asks_for_huge_pages():
    memory = aligned(2 * HUGE_PAGE_BYTES)
    memory[:] = 1
    maps = Path("/proc/self/smaps").read_text()
    for first, last, access, rest in re.findall(
        r"^([0-9a-f]+)-([0-9a-f]+) (\S+) (.*(?:\n(?![0-9a-f]+-).*)*)", maps, re.MULTILINE
    ):
        if int(first, 16) <= memory.ctypes.data < int(last, 16):
            assert access == "rw-p"
            flags = re.search(r"VmFlags:(.*)", rest)
            assert flags is None or " hg" in flags[1]
            return
    raise AssertionError("the memory is in no map")
