"""`LoadedAdapters`: the adapters of one backend by name, and how many use each."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from onnxgen.backends.adapters import Adapter
from onnxgen.errors import OptionError, StateError
from onnxgen.foundations.after_fork import in_forked_children
from onnxgen.foundations.suggest import did_you_mean

Bound = TypeVar("Bound")


@dataclass(slots=True)
class _Entry(Generic[Bound]):
    source: str
    digest: str
    bound: Bound
    users: int = 0


class LoadedAdapters(Generic[Bound]):
    """The adapters of one backend. May be used from several threads.

    Args:
        bind: Makes of an adapter what steps need; raises what does not fit the model.
        unbind: Lets go of it.
    """

    def __init__(self, bind: Callable[[Adapter], Bound], unbind: Callable[[Bound], None]) -> None:
        self._bind, self._unbind = bind, unbind
        self._entries: dict[str, _Entry[Bound]] = {}
        self._loading: set[str] = set()
        self._lock = threading.Lock()
        in_forked_children(self, LoadedAdapters[Bound]._renew_lock)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the adapters that are loaded, in the order in which they were."""
        return tuple(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self._entries)

    def load(self, adapter: Adapter) -> None:
        """Have an adapter ready for steps.

        Raises:
            StateError: There is one of that name.
            ModelFileError: It does not fit the model: which module, what was expected, what was found.
            CapabilityError: The backend cannot apply it.
        """
        name = adapter.name
        with self._lock:
            if name in self._entries or name in self._loading:
                held = self._entries.get(name)
                origin = "" if held is None else f" (from {held.source})"
                raise StateError(
                    f"an adapter {name!r} is loaded already{origin}; unload it first, or load this one by another name"
                )
            self._loading.add(name)
        try:
            bound = self._bind(adapter)
            with self._lock:
                self._entries[name] = _Entry(adapter.source, adapter.digest, bound)
        finally:
            self._loading.discard(name)

    def unload(self, name: str) -> None:
        """Let go of an adapter.

        Raises:
            OptionError: There is no such adapter.
            StateError: Somebody uses it.
        """
        with self._lock:
            entry = self._find(name)
            if entry.users:
                raise StateError(
                    f"adapter {name!r} is in use by {entry.users} request(s) or generator(s); it can be unloaded when "
                    "they have ended"
                )
            del self._entries[name]
        self._unbind(entry.bound)

    def acquire(self, name: str) -> str:
        """Use an adapter, which is not unloaded before `release`; returns its digest.

        Raises:
            OptionError: There is no such adapter.
        """
        with self._lock:
            entry = self._find(name)
            entry.users += 1
            return entry.digest

    @contextlib.contextmanager
    def held(self, name: str | None) -> Generator[None]:
        """Use an adapter inside the block; None uses none.

        Raises:
            OptionError: There is no such adapter.
        """
        if name is None:
            yield
            return
        self.acquire(name)
        try:
            yield
        finally:
            self.release(name)

    def release(self, name: str) -> None:
        """No longer use what was acquired; once the backend is closed there is nothing to do."""
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                return
            assert entry.users > 0, f"adapter {name!r} was released more often than acquired"
            entry.users -= 1

    def bound(self, name: str) -> Bound:
        """What steps need.

        Raises:
            OptionError: There is no such adapter.
        """
        return self._find(name).bound

    def clear(self) -> None:
        """Forget all adapters, used or not: their backend is closed."""
        with self._lock:
            self._entries.clear()

    def _find(self, name: str) -> _Entry[Bound]:
        entry = self._entries.get(name)
        if entry is None:
            loaded = ", ".join(self._entries) or "none"
            raise OptionError(
                f"there is no adapter {name!r}; loaded: {loaded}{did_you_mean(name, self._entries)}"
            )
        return entry

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()
