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


def leave_to_parent(thing: object) -> None:
    """Keep something as long as this process lives, so that what it does when it is collected never happens here.

    A suspended generator that is collected runs its ``finally``, on what the parent still uses.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


@cache
def _owners() -> WeakKeyDictionary[Any, Callable[[Any], None]]:
    return WeakKeyDictionary()


def _act() -> None:
    for owner, do in list(_owners().items()):
        do(owner)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_act)
