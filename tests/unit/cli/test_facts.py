from onnxgen.cli.facts import facts_text


def test_facts_are_lines_and_nested_facts_are_indented():
    facts = {
        "size_bytes": 98_362_432,
        "here": True,
        "missing": None,
        "none": {},
        "zero": 0,
        "names": ["a", "b"],
        "inner": {"two words": 1.5, "deeper": {"x_bytes": 1}},
    }
    assert facts_text(facts).splitlines() == [
        "size: 98.4 MB",
        "here: yes",
        "zero: 0",
        "names: a, b",
        "inner:",
        "  two words: 1.5",
        "  deeper:",
        "    x: 1 B",
    ]
