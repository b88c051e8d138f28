"""A sequence whose next token is to be chosen, and what it may bring of its own to choose it: protocols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.state import RowState
from onnxgen.errors import OptionError
from onnxgen.graph.cpu.masked_rows import Mask

TokenArray = npt.NDArray[np.integer[Any]]
Row = npt.NDArray[np.float32]
Rows = npt.NDArray[np.float32]


class LogitsProcessor(Protocol):
    """Changes a sequence's logits before a token is chosen: a grammar, a bias, a watermark."""

    def __call__(self, history: TokenArray, row: Row, /) -> None:
        """Change ``row`` in place.

        Args:
            history: Token ids of the sequence, prompt included; to be read only, and valid during the call.
            row: Its logits, float32 ``[vocab]``, after penalties and before bans. ``-inf`` forbids a token.
        """
        ...


@runtime_checkable
class BatchLogitsProcessor(Protocol):
    """A `LogitsProcessor` for several sequences at once: those of a step that have the same object, at the same place."""

    def process_rows(self, histories: Sequence[TokenArray], logits: Rows, /) -> None:
        """Change ``logits`` in place.

        Where it raises, it is called again for each sequence alone, with logits as they were, so that only the
        sequence at fault ends.

        Args:
            histories: Token ids of each sequence, as a `LogitsProcessor` gets them ``[rows]``.
            logits: Their logits, float32 ``[rows, vocab]``.
        """
        ...


class Sampler(Protocol):
    """Chooses tokens in place of temperature, top-k and all the rest, for the sequences of a step that have it."""

    def choose_rows(self, logits: Rows, rows: Sequence[SampledRow], /) -> Sequence[int] | TokenArray:
        """A token id for each row.

        Where it raises, or returns something else, it is called again for each sequence alone.

        Args:
            logits: float32 ``[rows, vocab]`` after all changes; ids that are no tokens have ``-inf``. The sampler's
                to change.
            rows: Whose they are ``[rows]``.
        """
        ...


class SampledRow(Protocol):
    """A sequence whose next token is to be chosen."""

    @property
    def options(self) -> SamplingOptions:
        """How the token is chosen; has a seed."""
        ...

    @property
    def processors(self) -> Sequence[LogitsProcessor | BatchLogitsProcessor]:
        """Called in order; usually none."""
        ...

    @property
    def sampler(self) -> Sampler | None:
        """Chooses in place of ours; usually None."""
        ...

    @property
    def mask(self) -> Mask | None:
        """The tokens that its grammar lets follow, whatever else is banned or not; None: it has no grammar."""
        ...

    @property
    def num_tokens(self) -> int:
        """Length of the sequence, prompt included."""
        ...

    @property
    def num_new_tokens(self) -> int:
        """How many of them were generated."""
        ...

    @property
    def history(self) -> TokenArray:
        """Token ids ``[num_tokens]``; only asked for when an option or a processor looks at them."""
        ...

    @property
    def row_state(self) -> RowState:
        """What choosing its tokens has to remember."""
        ...


def check_processors(name: str, value: object) -> None:
    """Check that an option holds things that change logits.

    Args:
        name: The option.
        value: What was given.

    Raises:
        OptionError: It is no list of them.
    """
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise OptionError(f"{name} must be a list of logits processors, got {value!r:.60}")
    for one in cast("Sequence[object]", value):
        if isinstance(one, type) or not (callable(one) or isinstance(one, BatchLogitsProcessor)):
            raise OptionError(
                f"{name} must hold functions of (history, row), or objects with process_rows, got {one!r:.60}"
            )


def check_sampler(value: object) -> None:
    """Check that something chooses tokens, or is None.

    Raises:
        OptionError: It does not.
    """
    if value is not None and (isinstance(value, type) or not callable(getattr(value, "choose_rows", None))):
        raise OptionError(f"sampler must be an object with choose_rows, got {value!r:.60}")
