from onnxgen.backends.ort.recently_used import RecentlyUsed


def test_what_was_not_used_for_longest_is_forgotten():
    store, made = RecentlyUsed(2), []

    def get(key):
        return store.get(key, lambda: made.append(key) or key.upper())

    assert [get(k) for k in "ababcacb"] == list("ABABCACB")
    assert made == ["a", "b", "c", "a", "b"]
    assert (store.find("c"), store.find("a")) == ("C", None)
    store.clear()
    assert store.find("b") is None
