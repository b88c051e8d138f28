"""What objects do in a forked child, where of all threads only the one that forked goes on."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

Owner = TypeVar("Owner")


def in_forked_children(owner: Owner, do: Callable[[Owner], None]) -> None:
    """Call ``do(owner)`` in each forked child as long as the owner lives, such as to renew a lock that no thread there gives back."""
    _owners()[owner] = do


@cache
def _owners() -> WeakKeyDictionary[Any, Callable[[Any], None]]:
    return WeakKeyDictionary()


def _act() -> None:
    for owner, do in list(_owners().items()):
        do(owner)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_act)
