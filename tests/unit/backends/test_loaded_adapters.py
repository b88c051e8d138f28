import pytest

from onnxgen.backends.adapters import Adapter
from onnxgen.backends.loaded_adapters import LoadedAdapters
from onnxgen.errors import ModelFileError, OptionError, StateError


def adapter(name, source="folder"):
    return Adapter(name, source=source, digest=f"digest of {name}")


def table():
    unbound = []
    return LoadedAdapters[str](lambda a: a.name.upper(), unbound.append), unbound


def test_what_is_loaded_is_bound_and_found_by_name():
    loaded, unbound = table()
    loaded.load(adapter("one"))
    loaded.load(adapter("two"))
    assert loaded.names == ("one", "two")
    assert loaded.bound("two") == "TWO"
    loaded.unload("one")
    assert unbound == ["ONE"]
    assert loaded.names == ("two",)


def test_a_name_is_taken_once_and_says_from_where():
    loaded, _ = table()
    loaded.load(adapter("one", source="/there"))
    with pytest.raises(StateError, match=r"'one' is loaded already \(from /there\)"):
        loaded.load(adapter("one"))


def test_an_unknown_name_is_told_what_there_is():
    loaded, _ = table()
    loaded.load(adapter("poems"))
    for call in (loaded.unload, loaded.acquire, loaded.bound):
        with pytest.raises(OptionError, match="no adapter 'poem'; loaded: poems; did you mean 'poems'"):
            call("poem")


def test_what_is_in_use_is_not_unloaded():
    loaded, unbound = table()
    loaded.load(adapter("one"))
    assert loaded.acquire("one") == "digest of one"
    loaded.acquire("one")
    loaded.release("one")
    with pytest.raises(StateError, match="in use by 1"):
        loaded.unload("one")
    loaded.release("one")
    loaded.unload("one")
    assert unbound == ["ONE"]


def test_what_does_not_fit_leaves_the_name_free():
    def refuse_the_first(a, seen=[]):  # noqa: B006 - remembers
        seen.append(a)
        if len(seen) == 1:
            raise ModelFileError("does not fit")
        return a

    loaded = LoadedAdapters[Adapter](refuse_the_first, lambda _: None)
    with pytest.raises(ModelFileError, match="does not fit"):
        loaded.load(adapter("one"))
    loaded.load(adapter("one"))
    assert loaded.names == ("one",)


def test_users_may_outlive_the_backend():
    loaded, _ = table()
    loaded.load(adapter("one"))
    loaded.acquire("one")
    loaded.clear()
    loaded.release("one")
    assert loaded.names == ()
