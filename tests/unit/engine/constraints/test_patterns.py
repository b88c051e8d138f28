import pytest

from grammar_vocabularies import accepts, byte_level, compiler_for
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.constraints.patterns import rust_pattern


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_level(tmp_path_factory.mktemp("vocabulary"))


@pytest.fixture(scope="module")
def compiler(tokenizer):
    return compiler_for(tokenizer)


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^\d$", "5", "٥"),
        (r"^\w$", "_", "é"),
        (r"^\s$", "\ufeff", "\x85"),
        (r"^\S$", "\x85", "\u3000"),
        (r"^[\s]$", "\u2003", "x"),
        (r"^[^\d]$", "a", "1"),
        (r"^[\D]$", "a", "1"),
        (r"^[\w-.]+$", "a-.", "a+"),
        (r"^[+-\d]+$", "+-3", ","),
        (r"^.$", "\x85", "\u2028"),
        (r"^[^]$", "\u2028", ""),
        (r"^x[]$|^y$", "y", "x"),
        (r"^[]a]$|^y$", "y", "]"),
        (r"^[[]$", "[", "x"),
        (r"^[a[b]\]$", "[]", "a"),
        (r"^[a-z&&b]$", "&", "1"),
        (r"^[a~~b]$", "~", "c"),
        (r"^\/\-\:$", "/-:", "/-"),
        (r"^\cJ$", "\\n", "J"),
        (r"^\u0041\x42$", "AB", "ab"),
        (r"^\ud83d\ude00$", "😀", "x"),
        (r"^\u{1F600}$", "😀", "x"),
        (r"^(?<year>\d{4})$", "2024", "24"),
        (r"^a|b$", "xb", "xa"),
        (r"^\p{Lu}+$", "ÀB", "a"),
        (r"^\v$|^b$", "b", "v"),
        ("^a\\\\b$", "a\\\\b", "ab"),
        ("b", "abc", "acd"),
    ],
)
def test_a_pattern_means_what_it_means_in_json_schema(compiler, tokenizer, pattern, good, bad):
    compiled = compiler.compile(Grammar.json_schema({"type": "string", "pattern": pattern}))
    assert accepts(compiled, tokenizer, f'"{good}"')
    assert not accepts(compiled, tokenizer, f'"{bad}"')


@pytest.mark.parametrize("pattern", ["", "abc", "^(a|b)*c{2,3}?$", "[^a-z]", r"\n\t\.\\", "é", "a\\"])
def test_what_is_the_same_in_both_is_left_alone(pattern):
    assert rust_pattern(pattern) == pattern
