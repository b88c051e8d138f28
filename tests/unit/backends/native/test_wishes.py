"""What keys and values may be kept as."""

from __future__ import annotations

import pytest

from onnxgen.backends.native.wishes import cache_bits
from onnxgen.errors import ConfigError
from onnxgen.foundations.runtime_config import RuntimeConfig


def test_keys_and_values_have_16_bits_or_8():
    assert cache_bits(RuntimeConfig()) == 16
    assert cache_bits(RuntimeConfig(kv_cache_dtype="int8")) == 8
    with pytest.raises(ConfigError, match="'fp8'; the native backend has auto and int8"):
        cache_bits(RuntimeConfig(kv_cache_dtype="fp8"))
