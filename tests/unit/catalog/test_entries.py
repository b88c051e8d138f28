import re

import pytest

from onnxgen.catalog import entries, find
from onnxgen.catalog.entries import HubSource, PackageSource, parse_catalog
from onnxgen.errors import ConfigError

GOOD = """
[[model]]
name = "a-model"
description = "A model"
licence = "MIT"
file = "a.gguf"
size_bytes = 10
sha256 = "{digest}"
[[model.source]]
kind = "hf"
repo = "org/a"
file = "a.gguf"
[[model.source]]
kind = "pypi"
parts = [{{ package = "a", version = "1.0", member = "a/a.gguf", download_bytes = 9 }}]
""".format(digest="0" * 64)


def test_the_shipped_catalog_is_complete():
    assert [entry.name for entry in entries()] == ["smollm2", "gemma3-270m"]
    for entry in entries():
        assert {type(source) for source in entry.sources} == {PackageSource, HubSource}
    assert [len(entry.sources[0].parts) for entry in entries()] == [1, 4]


def test_names_are_found_whatever_their_case():
    assert find("SmolLM2") is entries()[0]
    assert find("smollm") is None


def test_sources_keep_their_order():
    (entry,) = parse_catalog(GOOD)
    assert [str(source) for source in entry.sources] == ["hf:org/a:a.gguf", "pypi:a==1.0"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("licence =", "license =", r"catalog.model\[0\].licence is missing"),
        ('licence = "MIT"', 'licence = "MIT"\ncolour = 1', r"model\[0\].colour is not a known key"),
        ("size_bytes = 10", "size_bytes = 0", "size_bytes must be a positive number, got 0"),
        ("size_bytes = 10", "size_bytes = true", "size_bytes must be a positive number, got True"),
        ("0" * 64, "0" * 63, "sha256 is '0+', which is not of the right form"),
        ('"a-model"', '"../a"', "name is '../a', which is not of the right form"),
        ('file = "a.gguf"\nsize', 'file = "x/a.gguf"\nsize', "file must be a plain file name"),
        ('kind = "hf"', 'kind = "ftp"', r"source\[0\].kind is 'ftp'; known kinds: 'pypi', 'hf'"),
        ('repo = "org/a"', 'repos = "org/a"', "repo is missing"),
        ('version = "1.0", ', "", r"source\[1\].parts\[0\].version is missing"),
        ("download_bytes = 9", "download_byte = 9", "download_bytes is missing"),
        ('description = "A model"', 'description = ""', "description must be a text"),
        ("[[model]]", "[model]", "model must be a list"),
        ("[[model]]\nname", "[[modell]]\nname", "catalog.model must be a list"),
        ("[[model]]", "[[model]", "not valid TOML"),
    ],
)
def test_a_wrong_catalog_is_refused_with_the_key(old, new, message):
    assert old in GOOD
    with pytest.raises(ConfigError, match=message):
        parse_catalog(GOOD.replace(old, new, 1))


def test_a_misspelt_key_gets_a_hint():
    with pytest.raises(ConfigError, match=r"revison is not a known key; did you mean 'revision'"):
        parse_catalog(GOOD.replace('repo = "org/a"', 'repo = "org/a"\nrevison = "x"'))


def test_a_name_occurs_once():
    with pytest.raises(ConfigError, match="occur twice: a-model"):
        parse_catalog(GOOD + GOOD)


def test_packages_are_named_never_addressed():
    for entry in entries():
        for source in entry.sources:
            if isinstance(source, PackageSource):
                assert all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+", part.requirement) for part in source.parts)
