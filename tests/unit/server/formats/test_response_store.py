"""Responses are kept for those they belong to, within limits."""

from __future__ import annotations

import random
import secrets
from typing import Any

from onnxgen.server.formats.response_store import ResponseStore, StoredResponse


def _stored(id: str, tenant: str = "", text: str = "", after: StoredResponse | None = None) -> StoredResponse:
    earlier = [] if after is None else after.conversation
    response = {"id": id, "output": [{"type": "message", "id": f"msg_{id}", "text": text}]}
    return StoredResponse(
        response, (*earlier, {"type": "message", "id": f"in_{id}"}), tenant, 100 + len(text)
    )


def test_a_response_is_kept_with_what_it_answered() -> None:
    store = ResponseStore(max_responses=3)
    assert store.keep(_stored("a"))
    kept = store.get("a", tenant="")
    assert kept is not None
    assert [item["id"] for item in kept.conversation] == ["in_a", "msg_a"]
    assert store.item("msg_a", tenant="") is kept.response["output"][0]


def test_nobody_else_finds_it() -> None:
    store = ResponseStore(max_responses=3)
    store.keep(_stored("a", "alice"))
    assert store.get("a", tenant="bob") is None
    assert store.item("msg_a", tenant="bob") is None
    assert not store.delete("a", tenant="bob")
    assert store.delete("a", tenant="alice")
    assert store.get("a", tenant="alice") is None


def test_the_one_not_used_for_longest_makes_room() -> None:
    store = ResponseStore(max_responses=2)
    for id in "ab":
        store.keep(_stored(id))
    assert store.get("a", tenant="") is not None
    store.keep(_stored("c"))
    assert [store.get(id, tenant="") is not None for id in "abc"] == [True, False, True]


def test_who_keeps_most_makes_room() -> None:
    store = ResponseStore(max_responses=3, max_bytes=1000)
    store.keep(_stored("a", "alice"))
    for id in ("b", "c", "d", "e"):
        assert store.keep(_stored(id, "bob"))
    assert store.get("a", tenant="alice") is not None
    assert [store.get(id, tenant="bob") is not None for id in "bcde"] == [False, False, True, True]
    assert store.keep(_stored("f", "carol", "x" * 700))
    assert not store.keep(_stored("g", "carol", "x" * 800))  # it would cost the others theirs
    assert store.get("a", tenant="alice") is not None
    store.check_integrity()


def test_items_stay_as_long_as_a_response_has_them() -> None:
    store = ResponseStore(max_responses=9)
    first = _stored("a")
    store.keep(first)
    store.keep(_stored("b", after=first))
    store.delete("a", tenant="")
    assert store.item("msg_a", tenant="") is first.response["output"][0]
    store.delete("b", tenant="")
    assert store.item("msg_a", tenant="") is None


def test_none_are_kept_where_none_may_be() -> None:
    store = ResponseStore(max_responses=0)
    assert not store.keep(_stored("a"))
    assert len(store) == 0


def test_one_that_is_too_large_costs_no_other() -> None:
    store = ResponseStore(max_responses=9, max_bytes=1000)
    store.keep(_stored("a"))
    assert not store.keep(_stored("b", text="x" * 1000))
    assert store.get("a", tenant="") is not None


def test_sums_and_limits_hold_whatever_happens() -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    store = ResponseStore(max_responses=5, max_bytes=1500)
    for n in range(400):
        tenant = rng.choice("xy")
        match rng.randrange(3):
            case 0:
                store.delete(str(rng.randrange(max(n, 1))), tenant=tenant)
            case 1:
                found: Any = store.get(str(rng.randrange(max(n, 1))), tenant=tenant)
                assert found is None or found.tenant == tenant
            case _:
                previous = store.get(str(rng.randrange(max(n, 1))), tenant=tenant)
                store.keep(_stored(str(n), tenant, "x" * rng.randrange(900), after=previous))
        store.check_integrity()
    assert len(store) > 0
