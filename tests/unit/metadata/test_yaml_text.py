"""YAML, strictly."""

import pytest

from onnxgen.errors import MetadataError
from onnxgen.metadata import yaml_text
from onnxgen.metadata.yaml_text import read_yaml


def write(tmp_path, content):
    path = tmp_path / "inference_metadata.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_plain_values(tmp_path):
    path = write(tmp_path, "\ufeffa: 1\nb: [x, 2.5, true]\nc: {d: 'é'}\n# a comment\n")
    assert read_yaml(path) == {"a": 1, "b": ["x", 2.5, True], "c": {"d": "é"}}


BOMB = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (BOMB, r"line 2, column \d+: aliases"),
        ("a: &x [*x]", "aliases"),
        ("a: 1\nb: 2\na: 3\n", r"line 3, column 1: the key 'a' stands twice"),
        ("o: {k: 1, k: 2}", "the key 'k' stands twice"),
        ("1: a", r"the key 1 is not a string"),
        ("a: [1, 2", "not usable YAML: line"),
        ("a: !!python/object/apply:os.system [ls]", "not usable YAML: line 1"),
        ("a: 1\n---\nb: 2\n", "not usable YAML"),
        ("\ta: 1", "not usable YAML"),
        ("a: 2024-99-99", "not usable YAML"),
        (b"\xff\xfea", "is not UTF-8"),
        ("a: \x07", "not usable YAML"),
    ],
)
def test_what_is_refused(tmp_path, content, message):
    with pytest.raises(MetadataError, match=message) as caught:
        read_yaml(write(tmp_path, content))
    assert "inference_metadata.yaml" in str(caught.value)


def test_deep_nesting_is_an_error_not_a_crash(tmp_path):
    with pytest.raises(MetadataError, match=r"nested too deeply|not usable YAML"):
        read_yaml(write(tmp_path, "[" * 5000))


def test_a_huge_file_is_not_even_read(tmp_path, monkeypatch):
    monkeypatch.setattr(yaml_text, "_MAX_BYTES", 10)
    with pytest.raises(MetadataError, match="has 16 bytes; metadata may have 10"):
        read_yaml(write(tmp_path, "a: 1234567890123"))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(MetadataError, match="does not exist"):
        read_yaml(tmp_path / "inference_metadata.yaml")
