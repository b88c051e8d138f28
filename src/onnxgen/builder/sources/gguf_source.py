"""A GGUF file as a `WeightSource`."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.builder.gguf import values
from onnxgen.builder.gguf.config_map import read_config
from onnxgen.builder.gguf.reader import GgufFile, GgufTensor, read_gguf
from onnxgen.builder.gguf.tensor_names import MappedTensor, map_tensors, rotary_row_order
from onnxgen.builder.weights import BlockQuantized
from onnxgen.errors import CheckpointError
from onnxgen.foundations.suggest import did_you_mean


class GgufSource:
    """Weights of a GGUF file under Hugging Face's names, with its converters' changes undone.

    Nothing but the metadata and the table of tensors is kept; each tensor is read when it is asked for,
    in chunks of rows.
    """

    def __init__(self, path: Path) -> None:
        """Open a file.

        Raises:
            UnsupportedArchitectureError: The model in it is of an architecture that is not known.
            CheckpointError: The file is broken, one of several that belong together, or lacks keys.
        """
        file = read_gguf(path)
        _refuse_split(file)
        config = read_config(file)
        self._file = file
        self._config = config
        self._tensors = map_tensors(
            list(file.tensors),
            architecture=file.metadata["general.architecture"],
            heads=config["num_attention_heads"],
            kv_heads=config["num_key_value_heads"],
            path=path,
        )
        for name, mapped in self._tensors.items():
            self._check_heads(name, mapped)

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration made from the metadata, with the keys of ``config.json``."""
        return self._config

    @property
    def metadata(self) -> Mapping[str, Any]:
        """All keys and values of the file: strings, numbers, lists of strings, arrays of numbers."""
        return self._file.metadata

    @property
    def names(self) -> AbstractSet[str]:
        """Hugging Face names of all tensors."""
        return self._tensors.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor, outermost dimension first."""
        return self._line(name).shape

    def stored_type(self, name: str) -> str:
        """GGUF's name of the type a tensor is stored in, such as ``Q4_K``."""
        return self._line(name).type_name

    def load(self, name: str) -> npt.NDArray[Any]:
        """Read a tensor: float32, float16 and bfloat16 as they are, blocks dequantized to float32.

        Raises:
            CheckpointError: The tensor is missing, its bytes are, or its type cannot be read.
        """
        line = self._line(name)
        loaded = values.load_values(self._file, line, self._order(name))
        offset = self._tensors[name].offset
        if not offset:
            return loaded
        with np.errstate(invalid="ignore"):  # what is not a number stays so
            return loaded.astype(np.float32) - np.float32(offset)

    def load_blocks(self, name: str) -> BlockQuantized | None:
        """Read a matrix in its own blocks: Q4_0, Q4_1, Q4_K in 4 bits, Q5_0, Q6_K, Q8_0 in 8.

        None for all others. Among them are Q5_1 and Q5_K, which no 8-bit blocks hold exactly (their zero
        points are no whole numbers): quantize what `load` gives to 8 bits instead.
        """
        line = self._line(name)
        if self._tensors[name].offset:
            return None
        return values.load_blocks(self._file, line, self._order(name))

    def close(self) -> None:
        """Nothing is held open between reads."""

    def _line(self, name: str) -> GgufTensor:
        mapped = self._tensors.get(name)
        if mapped is None:
            raise CheckpointError(
                f"{self.path}: no tensor {name!r} among {len(self._tensors)}{did_you_mean(name, self._tensors)}"
            )
        return self._file.tensors[mapped.stored]

    def _order(self, name: str) -> npt.NDArray[np.intp] | None:
        heads, line = self._tensors[name].rotary_heads, self._line(name)
        # Of an unknown type the shape was not checked against the file, and reading it is refused anyway.
        return rotary_row_order(line.shape[0], heads) if heads and line.kind else None

    def _check_heads(self, name: str, mapped: MappedTensor) -> None:
        shape = self._file.tensors[mapped.stored].shape
        if mapped.rotary_heads and (not shape or shape[0] % (2 * mapped.rotary_heads)):
            raise CheckpointError(
                f"{self.path}: {name} has shape {list(shape)}, whose rows do not divide into "
                f"{mapped.rotary_heads} heads of an even size"
            )


def _refuse_split(file: GgufFile) -> None:
    count = file.metadata.get("split.count", 0)
    if isinstance(count, int) and count > 1:
        number = file.metadata.get("split.no", 0)
        raise CheckpointError(
            f"{file.path} is part {int(number) + 1} of {count} of a split GGUF; "
            "join the parts first: llama-gguf-split --merge FIRST_PART OUTPUT"
        )
