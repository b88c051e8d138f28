import pytest

from onnxgen.graph.cpu.huge_pages import huge_page_policy


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("always [madvise] never\n", "madvise"),
        ("[always] madvise never\n", "always"),
        ("always madvise [never]\n", "never"),
        ("", None),
        ("nonsense", None),
    ],
    ids=["madvise", "always", "never", "empty", "nonsense"],
)
def test_the_policy_in_brackets_holds(text, policy, tmp_path):
    file = tmp_path / "sys/kernel/mm/transparent_hugepage/enabled"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert huge_page_policy(tmp_path) == policy


def test_systems_without_it_say_nothing(tmp_path):
    assert huge_page_policy(tmp_path) is None
