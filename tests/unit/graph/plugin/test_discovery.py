import shutil
import sys
import tomllib

import numpy as np
import pytest

import onnxgen
from graph_models import model
from mirror import SOURCE, MirrorProvider
from onnxgen.errors import BackendError, ConfigError
from onnxgen.graph.plugin import load_provider, provider_names
from onnxgen.graph.session import InferenceSession

MODULE = """
from mirror import MirrorProvider

class Named(MirrorProvider):
    def __init__(self, size="1", colour="red"):
        super().__init__()
        if not size.isdigit():
            raise ValueError(f"size {size!r} is not a number")
        self.size = size

class First(Named):
    name = "first"

class Second(Named):
    name = "second"

class Broken(Named):
    name = "broken"
    def __init__(self):
        raise RuntimeError("the driver is too old")

class Empty:
    name = "empty"

number = 3
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Make it look as if a package with these entry points were installed."""
    monkeypatch.syspath_prepend(tmp_path)

    def put(package, points):
        (tmp_path / f"{package}_code.py").write_text(MODULE)
        folder = tmp_path / f"{package}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{name} = {package}_code:{what}" for name, what in points.items()]
        (folder / "entry_points.txt").write_text("\n".join(["[onnxgen.execution_providers]", *lines]))

    yield put
    for name in [name for name in sys.modules if name.endswith("_code")]:
        del sys.modules[name]


def test_our_own_are_found():
    assert {"cpu", "reference"} <= set(provider_names())
    assert load_provider("cpu") is load_provider("cpu")
    assert {"cpu", "reference"} <= set(onnxgen.get_available_providers()) <= set(onnxgen.get_all_providers())


def test_a_package_is_found_by_its_entry_point(install):
    install("alpha", {"first": "First"})
    assert "first" in provider_names()
    provider = load_provider("first", {"size": "2"})
    assert provider.size == "2"
    assert load_provider("first", {"size": 2}) is provider
    assert load_provider("first", {"size": "3"}) is not provider
    session = InferenceSession(
        model("g (float[N] x) => (float[N] y) { a = Abs(x) \n y = Exp(a) }"), providers=["first", "cpu"]
    )
    assert session.get_providers() == ["first", "cpu"]
    np.testing.assert_allclose(session.run(None, {"x": np.array([-1], np.float32)})[0], np.exp(1), rtol=1e-6)


def test_two_packages_with_one_name_are_a_conflict(install):
    install("alpha", {"both": "First"})
    install("beta", {"both": "First"})
    with pytest.raises(
        ConfigError,
        match=r"'both' is declared by several packages: .*alpha_code:First.*; uninstall all but one",
    ):
        load_provider("both")


def test_a_package_listed_twice_is_no_conflict(install, tmp_path, monkeypatch):
    install("gamma", {"second": "Second"})
    again = tmp_path / "again"
    again.mkdir()
    shutil.copytree(tmp_path / "gamma-1.0.dist-info", again / "gamma-1.0.dist-info")
    monkeypatch.syspath_prepend(again)
    assert load_provider("second").name == "second"


@pytest.mark.parametrize(
    ("points", "options", "error", "message"),
    [
        ({"broken": "Broken"}, {}, BackendError, "cannot be started: RuntimeError: the driver is too old"),
        ({"gone": "Gone"}, {}, BackendError, "'gone' of delta .*cannot be imported: AttributeError"),
        (
            {"empty": "Empty"},
            {},
            BackendError,
            "is not an execution provider: Empty lacks device, claim, compile",
        ),
        ({"number": "number"}, {}, BackendError, "is a int, not a class or function"),
        ({"other": "First"}, {}, BackendError, "calls itself 'first'"),
        ({"first": "First"}, {"siez": "1"}, ConfigError, "did you mean 'size'.*it takes size, colour"),
        ({"first": "First"}, {"size": "big"}, ConfigError, "refuses its options .*'big' is not a number"),
        ({"broken": "Broken"}, {"a": "1"}, ConfigError, "it takes no options"),
    ],
)
def test_broken_packages_say_what_is_broken(install, points, options, error, message):
    install("delta", points)
    (name,) = points
    with pytest.raises(error, match=message):
        load_provider(name, options)
    if error is BackendError:
        assert name in onnxgen.get_all_providers()
        assert name not in onnxgen.get_available_providers()


def test_a_module_that_cannot_be_imported_is_named(install, tmp_path):
    install("epsilon", {"late": "First"})
    (tmp_path / "epsilon_code.py").write_text("import a_library_that_is_not_there")
    with pytest.raises(BackendError, match=r"'late' of epsilon .*a_library_that_is_not_there"):
        load_provider("late")


def test_unknown_names_get_a_hint():
    with pytest.raises(ConfigError, match=r"'refrence'; did you mean 'reference'\?; installed are .*cpu"):
        load_provider("refrence")


def test_the_example_declares_what_it_has():
    with (SOURCE / "pyproject.toml").open("rb") as file:
        points = tomllib.load(file)["project"]["entry-points"]["onnxgen.execution_providers"]
    assert points == {
        MirrorProvider.name: f"{MirrorProvider.__module__.partition('.')[0]}:{MirrorProvider.__name__}"
    }
