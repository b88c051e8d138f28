"""Facts from our own builder's manifest."""

import json

import pytest

from onnxgen.errors import MetadataError
from onnxgen.metadata.manifest import MANIFEST, rope_switch_length


def test_without_a_manifest_the_caller_decides(tmp_path):
    assert rope_switch_length(tmp_path, otherwise=4096) == 4096


@pytest.mark.parametrize(
    ("said", "length"), [({}, 4096), ({"rope_switch_length": 32}, 32), ({"rope_switch_length": None}, None)]
)
def test_what_the_manifest_says_wins(tmp_path, said, length):
    (tmp_path / MANIFEST).write_text(json.dumps({"format": 1, **said}))
    assert rope_switch_length(tmp_path, otherwise=4096) == length


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"rope_switch_length": "4096"}',
        '{"rope_switch_length": 0}',
        '{"rope_switch_length": true}',
    ],
)
def test_a_broken_manifest_is_named(tmp_path, text):
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(MetadataError, match=MANIFEST):
        rope_switch_length(tmp_path, otherwise=None)
