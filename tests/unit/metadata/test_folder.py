import pytest

from onnxgen.metadata.folder import find_inference_metadata, is_model_folder


@pytest.mark.parametrize(
    "name",
    ["genai_config.json", "inference_metadata.yaml", "inference_metadata.yml", "inference_metadata.json"],
)
def test_either_kind_of_metadata_makes_a_model_folder(tmp_path, name):
    (tmp_path / "model.onnx").write_bytes(b"x")
    assert not is_model_folder(tmp_path)
    (tmp_path / name).write_text("{}")
    assert is_model_folder(tmp_path)
    assert (find_inference_metadata(tmp_path) is None) == name.startswith("genai")


def test_a_link_that_leads_nowhere_was_meant_to_be_metadata(tmp_path):
    (tmp_path / "genai_config.json").symlink_to(tmp_path / "nowhere")
    assert is_model_folder(tmp_path)


def test_files_and_missing_folders_are_none(tmp_path):
    (tmp_path / "file").write_text("")
    assert not is_model_folder(tmp_path / "file")
    assert not is_model_folder(tmp_path / "nowhere")
