import os
import subprocess
import sys
from pathlib import Path

import pytest

from onnxgen.backends.ort.session import _utf8
from onnxgen.errors import BackendError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="file names are text there")


def test_names_on_disk_are_given_in_utf8():
    assert _utf8(Path("/größe/模型 v1")) == "/größe/模型 v1"


def test_the_locale_does_not_matter():
    script = (
        "import sys; from pathlib import Path; from onnxgen.backends.ort.session import _utf8; "
        "assert sys.getfilesystemencoding() == 'ascii'; print(ascii(_utf8(Path(sys.argv[1]))))"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", script, "/größe 模型"],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.stdout.strip() == ascii("/größe 模型")


def test_names_that_are_not_utf8_are_refused():
    with pytest.raises(BackendError, match="by UTF-8 names only"):
        _utf8(Path(os.fsdecode(b"/a\xffb")))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere other folders are used")
@pytest.mark.parametrize(("variable", "files"), [(None, False), ("0", None)])
def test_onnx_runtime_reports_nothing_unasked(tmp_path, variable, files):
    environment = {k: v for k, v in os.environ.items() if k != "ORT_DISABLE_TELEMETRY"}
    environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    environment |= {} if variable is None else {"ORT_DISABLE_TELEMETRY": variable}
    script = "import onnxgen.backends.ort.backend, os; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, env=environment
    )
    assert done.stdout.strip() == (variable or "1")
    if files is False:
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]
