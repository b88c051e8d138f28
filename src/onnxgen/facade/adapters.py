"""`Adapters`: low-rank adapters of a model, by onnxruntime-genai's names."""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from onnxgen.backends.adapters import Adapter
from onnxgen.backends.combined import combine
from onnxgen.backends.loaded_adapters import LoadedAdapters
from onnxgen.errors import OptionError, StateError
from onnxgen.facade.model import Model
from onnxgen.foundations.suggest import did_you_mean


class Adapters:
    """Adapters of a model, each with a name. May be used from several threads.

    Every folder takes them: PEFT adapters (LoRA) are added to the linear layers that they name, whether those are
    quantized or not, and ``.onnx_adapter`` files fill the graph inputs that they name. They are unloaded when
    this object and the generators that use it are dropped.

    Args:
        model: The model; names are the same for all such objects of one model.

    Attributes:
        model: The model.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._loaded = model.backend.adapters
        self._paths: dict[str, Path] = {}
        self._numbers = itertools.count(1)
        self._release = weakref.finalize(self, _unload_unused, self._loaded, self._paths)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the adapters that were loaded here."""
        return tuple(self._paths)

    def load(self, path: str | os.PathLike[str], name: str) -> None:
        """Load an adapter.

        Args:
            path: A PEFT folder (``adapter_config.json`` and ``adapter_model.safetensors``) or an ``.onnx_adapter`` file.
            name: What it is called from now on.

        Raises:
            OptionError: The path is none, or the name is empty or no text.
            StateError: The name is taken.
            ModelNotFoundError: Nothing is there.
            ModelFileError: The files are broken, or do not fit the model.
            CapabilityError: The adapter changes the model in a way that cannot be applied.
        """
        self._loaded.load(load_adapter(path, name))
        self._paths[name] = Path(path)

    def unload(self, name: str) -> None:
        """Let go of an adapter.

        Raises:
            OptionError: No adapter of that name was loaded here.
            StateError: A generator or a request uses it.
        """
        self._check(name)
        self._loaded.unload(name)
        del self._paths[name]

    def activate(self, names: Sequence[str]) -> tuple[str, Callable[[], None]]:
        """Use one adapter, or several at once, which add up.

        Args:
            names: At least one.

        Returns:
            The name that steps use, and what ends the use, to be called once.

        Raises:
            OptionError: No adapter of that name was loaded here, or they cannot be active together.
        """
        for name in names:
            self._check(name)
        if len(names) == 1:
            self._loaded.acquire(names[0])
            return names[0], lambda: self._loaded.release(names[0])
        held: list[str] = []
        together = f"{' + '.join(names)} (number {next(self._numbers)})"
        try:
            for name in names:
                self._loaded.acquire(name)
                held.append(name)
            parts = [load_adapter(self._paths[name], name) for name in names]
            self._loaded.load(combine(parts, together))
        except BaseException:
            for name in held:
                self._loaded.release(name)
            raise

        def release() -> None:
            for name in held:
                self._loaded.release(name)
            _unload_unused(self._loaded, [together])

        return together, release

    def close(self) -> None:
        """Unload what nobody uses. Calling it twice is harmless."""
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self, name: str) -> None:
        if name not in self._paths:
            loaded = ", ".join(self._paths) or "none"
            raise OptionError(
                f"there is no adapter {name!r}; loaded: {loaded}{did_you_mean(str(name), self._paths)}"
            )


def load_adapter(path: str | os.PathLike[str], name: str) -> Adapter:
    """Read an adapter, for `LoadedAdapters.load` of a backend or `EngineClient.load_adapter`.

    Raises:
        OptionError: The path is none, or the name is empty or no text.
        ModelNotFoundError: Nothing is there.
        ModelFileError: The files are broken.
        CapabilityError: The adapter changes the model in a way that cannot be applied.
    """
    from onnxgen.builder.adapters import read_adapter

    given = cast("object", name)  # it comes from programs of any kind
    if not isinstance(given, str) or not given.strip():
        raise OptionError(f"an adapter needs a name, got {given!r}")
    try:
        place = Path(path)
    except TypeError as cause:
        raise OptionError(f"an adapter is loaded from a path, got {path!r:.60}") from cause
    return read_adapter(place, name)


def _unload_unused(loaded: LoadedAdapters[Any], names: Sequence[str] | dict[str, Path]) -> None:
    for name in tuple(names):
        if name in loaded:
            try:
                loaded.unload(name)
            except (StateError, OptionError):
                continue  # in use, or unloaded by another thread just now
