"""`ModelInputs`: values of inputs of a model's graph that nobody but the caller knows, for one `Generator`."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.backends.adapters import Adapter
from onnxgen.backends.base import Backend
from onnxgen.errors import CapabilityError, ModelFileError, OptionError
from onnxgen.foundations.suggest import did_you_mean

Array = npt.NDArray[Any]


class ModelInputs:
    """Values by the names of inputs. To the executor they are an adapter: values that stay the same run after run.

    Args:
        backend: The executor.

    Attributes:
        values: What was given.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._bound: str | None = None
        self.values: dict[str, Array] = {}

    def check(self, name: str) -> None:
        """Refuse names that no value can be given for.

        Raises:
            CapabilityError: With the names there are.
        """
        known = sorted(self._backend.capabilities.extra_inputs)
        if name not in known:
            has = ", ".join(known) or "none, as the generator fills all of them"
            raise CapabilityError(
                f"input {name!r} cannot be set; inputs of this model's graph that can are: {has}{did_you_mean(name, known)}"
            )

    def set(self, name: str, value: npt.ArrayLike) -> None:
        """Give a value, in place of one that was given before; it is looked at by `bind`."""
        self.check(name)
        self.close()
        self.values = {**self.values, name: np.array(value)}

    def fork(self) -> ModelInputs:
        """The same values, for another generator."""
        other = ModelInputs(self._backend)
        other.values = self.values
        return other

    def bind(self) -> str | None:
        """Name of the adapter that steps use to be given the values; None where there are none.

        Raises:
            OptionError: A value does not fit, or a further one is missing.
        """
        if self._bound is None and self.values:
            adapter = Adapter(
                f"inputs of a generator ({id(self)})", source="set_model_input", digest="", inputs=self.values
            )
            try:
                self._backend.adapters.load(adapter)
            except (ModelFileError, ValueError, TypeError) as cause:  # numpy's, of what is no number
                raise OptionError(str(cause)) from cause
            self._bound = adapter.name
        return self._bound

    def close(self) -> None:
        """Take them back from the executor. Calling it twice is harmless."""
        if self._bound is not None:
            with contextlib.suppress(OptionError):  # the executor was closed before
                self._backend.adapters.unload(self._bound)
            self._bound = None
