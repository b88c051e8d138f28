from onnxgen.facade import memory
from onnxgen.foundations.cpuinfo import MemoryInfo
from onnxgen.foundations.runtime_config import RuntimeConfig


def test_the_configured_limit_is_the_budget():
    assert memory.cache_budget_bytes(RuntimeConfig(memory_limit_mb=3)) == 3 << 20


def test_without_a_limit_a_share_of_what_is_free_is(monkeypatch):
    monkeypatch.setattr(memory, "detect_memory", lambda: MemoryInfo(1000, 400))
    assert memory.cache_budget_bytes(RuntimeConfig()) == 100
    monkeypatch.setattr(memory, "detect_memory", lambda: MemoryInfo(None, None))
    assert memory.cache_budget_bytes(RuntimeConfig()) is None
