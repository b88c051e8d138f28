from onnxgen.foundations.recent import Recent


def test_what_was_used_longest_ago_makes_room():
    recent = Recent[str, int](2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert (recent.get("a"), recent.get("b"), recent.get("c")) == (1, None, 3)
    assert len(recent) == 2


def test_entries_are_replaced_and_forgotten():
    recent = Recent[str, int](2)
    recent.put("a", 1)
    recent.put("a", 2)
    assert len(recent) == 1
    recent.discard("b")
    recent.discard("a")
    assert recent.get("a") is None
    recent.put("c", 3)
    recent.clear()
    assert len(recent) == 0
