from pathlib import Path

import pytest

from onnxgen.catalog.layout import is_built_from, lock_path, model_folder, stamp_path


@pytest.mark.parametrize("name", ["smollm2", "gemma3-270m", "Org--some.Model--Q4_K_M"])
@pytest.mark.parametrize("precision", ["int4", "bf16"])
def test_a_model_is_known_by_its_checkpoint(name, precision):
    folder = model_folder(Path("cache"), name, precision)
    assert is_built_from(folder.name, name)
    assert not is_built_from(folder.name, name + "x")
    assert not is_built_from(name, name)


def test_what_lies_beside_a_model_is_hidden_and_its_own():
    folder = model_folder(Path("cache"), "smollm2", "int4")
    beside = {stamp_path(folder), lock_path(folder)}
    assert len(beside) == 2
    assert all(path.parent == folder.parent and path.name.startswith(".smollm2-int4.") for path in beside)
