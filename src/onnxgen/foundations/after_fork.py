"""What objects do in a forked child, where of all threads only the one that forked goes on."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import TypeVar

Owner = TypeVar("Owner")


def in_forked_children(owner: Owner, do: Callable[[Owner], None]) -> None:
    """Call ``do(owner)`` in each forked child as long as the owner lives, such as to renew a lock that no thread there gives back."""
    reference = weakref.ref(owner)

    def act() -> None:
        here = reference()
        if here is not None:
            do(here)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=act)
