"""`SequenceSampler`: a `RowSampler` for a fixed set of sequences, all of which get a token or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sampling.custom import Row, TokenArray
from onnxgen.engine.sampling.no_choice import no_choice
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.rows import RowSampler
from onnxgen.engine.sampling.state import RowState
from onnxgen.errors import OnnxgenError


@dataclass(frozen=True, slots=True)
class _Row:
    options: SamplingOptions
    history: TokenArray
    row_state: RowState
    num_new_tokens: int = 0  # no option looks at them
    processors: tuple[()] = ()
    sampler: None = None
    mask: None = None

    @property
    def num_tokens(self) -> int:
        return len(self.history)


class SequenceSampler:
    """Chooses tokens for a batch whose sequences may have different options.

    Args:
        options: One per sequence, none of them about the answer alone, since nobody says where it begins. Those without
            a seed get a fresh one here, once.
        eos_ids: The tokens that ``min_length`` bans.
    """

    def __init__(self, options: Sequence[SamplingOptions], *, eos_ids: Sequence[int]) -> None:
        assert not any(o.presence_penalty or o.frequency_penalty or o.forced_tokens for o in options)
        self._options = [o.with_seed() for o in options]
        self._states = [RowState() for _ in options]
        self._rows = RowSampler(eos_ids=eos_ids)

    def __call__(
        self,
        logits: npt.NDArray[np.float32],
        *,
        sequences: Sequence[int],
        histories: Sequence[TokenArray],
    ) -> list[int]:
        """Choose the next token of some of the sequences.

        Args:
            logits: float32 ``[rows, vocab]``; not changed.
            sequences: Which sequence each row belongs to ``[rows]``.
            histories: Token ids of each row's sequence so far, prompt included ``[rows]``.

        Raises:
            BackendError: A row has no finite maximum (a NaN came out of the model).
            OptionError: Options left it none.
            TokenIdError: Options hold an id that is no token.
        """
        tokens: list[int] = []
        for chosen in self._rows.choose(logits, self._sampled(sequences, histories)):
            if isinstance(chosen, OnnxgenError):
                raise chosen
            tokens.append(chosen)
        return tokens

    def process(
        self,
        logits: npt.NDArray[np.float32],
        *,
        sequences: Sequence[int],
        histories: Sequence[TokenArray],
    ) -> list[Row]:
        """Logits after all penalties and bans, for callers that choose by themselves.

        Args:
            logits: As in a call, as are all.
            sequences: See there.
            histories: See there.

        Returns:
            For each row float32 ``[vocab]`` with a finite maximum, to be read only.

        Raises:
            BackendError: A row has no finite maximum (a NaN came out of the model).
            OptionError: Options left it none.
            TokenIdError: Options hold an id that is no token.
        """
        sampled = self._sampled(sequences, histories)
        rows: list[Row] = []
        for own, row, sequence in zip(logits, self._rows.process(logits, sampled), sampled, strict=True):
            if isinstance(row, OnnxgenError):
                raise row
            if not np.isfinite(row.max()):
                raise no_choice(own, row, sequence)
            rows.append(row)
        return rows

    def _sampled(self, sequences: Sequence[int], histories: Sequence[TokenArray]) -> list[_Row]:
        return [
            _Row(self._options[i], history, self._states[i])
            for i, history in zip(sequences, histories, strict=True)
        ]
