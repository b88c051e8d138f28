"""Patterns of RE2 mean here what they mean in ONNX Runtime, which has RE2 itself."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from kernel_runs import run_cpu, run_ort
from onnxgen.graph.cpu.re2 import compile_re2

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
        (r"(?=a)a", "does not have"),
        (r"(?<=a)b", "does not have"),
        (r"(a)\1", "refers back"),
        (r"a**", "two repetitions"),
        (r"a++", "two repetitions"),
        (r"a{1001}", "1000"),
        (r"\C", "not supported"),
        (r"\p{Greek}", "general category"),
        (r"(a", "not closed"),
        (r"a)", "not open"),
        (r"[a", "not closed"),
        ("a\\", "backslash"),
    ],
)
def test_what_re2_does_not_have_is_refused_with_its_reason(pattern, reason):
    with pytest.raises(ValueError, match=reason):
        compile_re2(pattern)
