import json

import pytest

import checkpoints


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return checkpoints.write_checkpoint(
        checkpoints.CHECKPOINTS["llama"], tmp_path_factory.mktemp("a model é")
    )


def test_a_folder_is_built(onnxgen, checkpoint, tmp_path):
    output = tmp_path / "built model"
    result = onnxgen("build", checkpoint, "-o", output, "-p", "int8", "--extra", "block_size=16")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{output}: LlamaForCausalLM, int8, ")
    assert "matrices: " in result.stdout and "int8 block 16" in result.stdout
    assert json.loads((output / "onnxgen_build.json").read_text())["options"]["block_size"] == 16


def test_building_again_replaces_a_model_folder(onnxgen, checkpoint, tmp_path):
    sizes = []
    for precision in ("fp32", "int4", "fp32"):
        assert onnxgen("build", checkpoint, "-o", tmp_path / "out", "-p", precision).exit_code == 0
        sizes.append(sum(path.stat().st_size for path in (tmp_path / "out").iterdir()))
    assert sizes[0] == sizes[2] > sizes[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-p", "int3"], "int3"),
        (["--extra", "block_sise=32"], "did you mean 'block_size'"),
        (["--extra", "block_size"], "has no '='"),
        (["--extra", "block_size=7"], "block_size is 7"),
    ],
)
def test_wrong_options_are_usage_errors(onnxgen, checkpoint, tmp_path, arguments, message):
    result = onnxgen("build", checkpoint, "-o", tmp_path / "out", *arguments)
    assert result.exit_code == 2 and message in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_missing_checkpoint_is_named(onnxgen, tmp_path):
    result = onnxgen("build", tmp_path / "nothing.gguf", "-o", tmp_path / "out")
    assert result.exit_code == 1 and "nothing.gguf" in result.stderr


def test_other_peoples_folders_are_not_replaced(onnxgen, checkpoint, tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    result = onnxgen("build", checkpoint, "-o", tmp_path)
    assert result.exit_code == 1 and (tmp_path / "precious.txt").read_text() == "mine"
