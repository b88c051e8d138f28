"""Patterns mean here what they mean in ONNX Runtime, which has the same library."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from kernel_runs import kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import InvalidGraphError

WORDS = r"""a A ab AB Ab aC ac c C é É ß x1 _ 123 १२ a.b a+b tEST ªx - ] aa aaaa ABC Σ σ ς Ж a|b { a{ foo@bar.com
www.x.com"""
TEXTS = np.array([*WORDS.split(), "", " ", "\n", "a\n", "a\nb", "word word", "\x01", "\x0b"], object)
PATTERNS = [
    *(r"a", r"(?i)ab", r"a(?i)b|c", r"\w+", r"\W", r"\d+", r"\pN+", r"\p{L}+", r"\PL+", r"[^\pL]+"),
    *(r"[[:alpha:]]+", r"[[:^alpha:]]", r"[\D]", r"[^\d\s]+", r"a$", r"a$\n?", r"(?m)a$\n?b?", r"(?s).*", r".*"),
    *(r"\Qa+b\E", r"\Qa|b", r"a\x{2e}b", r"a\x2eb", r"\x41", r"(?P<n>a)b", r"(?<n>a)b", r"(?i)É", r"(?i)σ"),
    *(r"(?i:a)c", r"(?i)a(?-i)c", r"\bword\b word", r"[\]\-]", r"[]a]+", r"a{2}", r"a{,2}", r"a{", r"\{", r"a{2,}"),
    *(r"\v", r"[\s]", r"[[:space:]]", r"a*?", r"(?U)a*", r"(a|b)*\.b", r"\p{Lu}", r"[[:punct:]]", r"\z", r"a\z"),
    *(r"\101", r"\07", r"(www.[\w.-]+.com)|(\w+@\w+\.com)", r"(?i)[^a]", r"[&|~]+", r"^a\n?^b?", r"(|a)+"),
    *(r"(?i)a|(b(?-i)c|d)|C",),
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_matches_what_it_matches_in_re2(pattern):
    want = run_ort("RegexFullMatch", TEXTS, pattern=pattern, opset=20, output_types=[ir.DataType.BOOL])
    got = run_cpu("RegexFullMatch", TEXTS, pattern=pattern, opset=20)
    assert TEXTS[got].tolist() == TEXTS[want].tolist()


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(?=a)a", r"perl operator: \(\?="),
        (r"(a)\1", r"escape sequence: \\1"),
        (r"a**", r"repetition operator: \*\*"),
        (r"a{1001}", "1001"),
        (r"\p{Klingon}", "Klingon"),
        (r"(a", "missing \\)"),
        (r"[a", "missing \\]"),
        ("a\\", "trailing"),
        ("\udcff", "UTF-8"),
        (r"((a{100}){100}){100}", "repetition size"),
    ],
)
def test_what_re2_does_not_have_is_refused_with_its_reason(pattern, reason, capfd):
    node = node_spec("RegexFullMatch", TEXTS, pattern=pattern, opset=20)
    with pytest.raises(InvalidGraphError, match=f"is none of RE2: .*{reason}") as failure:
        kernel_of(node)
    assert repr(pattern) in str(failure.value)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("pattern", "matches"), [("(a*)*b", True), ("(a|aa)+b", True), ("(a?){50}a{50}b", False)]
)
def test_time_is_linear_in_the_text(pattern, matches):
    texts = np.array(["a" * 1_000_000, "a" * 1_000_000 + "b"], object)
    assert run_cpu("RegexFullMatch", texts, pattern=pattern, opset=20).tolist() == [
        False,
        pattern[-2:] != "}b",
    ]


def test_scripts_are_known():
    words = np.array(["\u03b1\u03b2", "ab"], object)
    assert run_cpu("RegexFullMatch", words, pattern=r"\p{Greek}+", opset=20).tolist() == [True, False]


def test_texts_that_are_not_utf8_match_byte_by_byte_only():
    texts = np.array(["a\udcff", "a\u00e9"], object)
    assert run_cpu("RegexFullMatch", texts, pattern="a.", opset=20).tolist() == [False, True]
    assert run_cpu("RegexFullMatch", texts, pattern=r"a\C", opset=20).tolist() == [True, False]
