"""`PlainGraph`: any graph in a session, by the names of its inputs and outputs; nothing of it is known or changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnxruntime as ort

from onnxgen.backends.base import DecoderModel
from onnxgen.backends.ort.options import choose_providers, make_session_options
from onnxgen.backends.ort.session import OrtSession
from onnxgen.foundations.files import check_file
from onnxgen.foundations.runtime_config import RuntimeConfig

Array = npt.NDArray[Any]


class PlainGraph:
    """A graph in a session of ONNX Runtime. May be used from several threads.

    Args:
        path: The ONNX file.
        config: Threads and providers.

    Raises:
        ConfigError: A provider is wrong.
        ModelFileError: The file, or its external data, is missing or broken.
        BackendError: ONNX Runtime refuses it.
    """

    def __init__(self, path: Path, config: RuntimeConfig) -> None:
        import onnx_ir as ir

        from onnxgen.backends.ort.model_file import parse_model

        file = parse_model(check_file(path).read_bytes(), path)
        no_roles = DecoderModel(path, inputs={}, outputs={}, num_layers=0, vocab_size=0, context_length=0)
        self._session = OrtSession(
            ir.to_proto(file.model).SerializeToString(),
            path=path,
            data_folder=file.data_folder,
            options=make_session_options(no_roles, config),
            providers=choose_providers(no_roles, config, ort.get_available_providers()),
            run_options={},
        )

    @property
    def input_types(self) -> Mapping[str, str]:
        """Inputs by name, with their types as ONNX Runtime writes them, such as ``tensor(int64)``."""
        return self._session.input_types

    @property
    def output_ranks(self) -> Mapping[str, int]:
        """Outputs by name, with their numbers of axes."""
        return self._session.output_ranks

    def run(self, outputs: Sequence[str], inputs: Mapping[str, Array]) -> list[Array]:
        """Run once.

        Raises:
            BackendError: ONNX Runtime failed.
        """
        return self._session.run_arrays(outputs, inputs)
