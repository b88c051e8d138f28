"""Capabilities by name."""

import pytest

from onnxgen.errors import CapabilityError
from onnxgen.metadata.capabilities import SUPPORTED_CAPABILITIES, check_capabilities


def test_what_we_have_passes():
    check_capabilities(SUPPORTED_CAPABILITIES, source="f")
    check_capabilities([], source="f")


def test_what_is_missing_is_named():
    with pytest.raises(CapabilityError, match=r"f: the model requires 'telepathy', 'x', which this version"):
        check_capabilities(["kv_cache", "telepathy", "x"], source="f")


def test_a_misspelled_one_has_a_hint():
    with pytest.raises(CapabilityError, match="did you mean 'kv_cache'"):
        check_capabilities(["kv_cach"], source="f")
