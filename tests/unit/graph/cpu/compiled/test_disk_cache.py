import os
import subprocess
import sys

import pytest

PROGRAM = """
from onnxgen.graph.cpu.compiled import {module}
{module}.{call}
"""


@pytest.mark.parametrize(("module", "call"), [("maps", "mapping('gelu')"), ("products", "product()")])
def test_the_next_process_finds_what_was_compiled(module, call, tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}

    def files():
        subprocess.run(
            [sys.executable, "-c", PROGRAM.format(module=module, call=call)], env=environment, check=True
        )
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb?")}

    first = files()
    assert first
    assert files() == first


def test_without_a_folder_to_write_in_everything_is_compiled_anew(tmp_path):
    place = tmp_path / "not a folder"
    place.write_text("")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(place)}
    program = PROGRAM.format(module="halves", call="conversion(to_half=True)") + "print('ran')"
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == "ran", done.stderr
