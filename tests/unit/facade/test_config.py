import numpy as np
import pytest

from onnxgen.errors import CapabilityError, MetadataError, ModelFileError, OnnxgenError, OptionError
from onnxgen.facade.config import Config
from onnxgen.facade.model import Model
from onnxgen.foundations.runtime_config import RuntimeConfig
from tiny_model_folder import fake_backend, write_model_folder


@pytest.fixture
def config(tmp_path):
    return Config(write_model_folder(tmp_path / "model"))


def names(config):
    return [p.name for p in config.spec.decoder.providers]


def test_an_overlay_is_merged_over_the_folder(config):
    config.overlay('{"search": {"top_k": 3}}')
    config.overlay('{"search": {"top_p": 0.5}}')
    assert (config.spec.search.top_k, config.spec.search.top_p) == (3, 0.5)


@pytest.mark.parametrize("document", ['{"search": {"topk": 3}}', "{", '{"search": {"top_k": "x"}}'])
def test_a_wrong_overlay_is_refused_and_changes_nothing(config, document):
    config.overlay('{"search": {"top_k": 3}}')
    with pytest.raises(MetadataError):
        config.overlay(document)
    assert config.spec.search.top_k == 3
    config.overlay('{"search": {"top_k": 4}}')
    assert config.spec.search.top_k == 4


def test_providers_are_cleared_appended_and_given_options(config):
    config.append_provider("cuda")
    config.set_provider_option("cuda", "device_id", "1")
    config.set_provider_option("dml", "x", "y")
    config.append_provider("cuda")
    assert len(names(config)) == 2
    assert config.spec.decoder.providers[0].options["device_id"] == "1"
    model = Model(config, runtime=RuntimeConfig(), backend=fake_backend())
    assert model.device_type == "CUDA"
    config.clear_providers()
    assert names(config) == []
    assert Model(config, runtime=RuntimeConfig(), backend=fake_backend()).device_type == "CPU"
    with pytest.raises(OptionError):
        config.append_provider("")


def test_graphs_may_come_from_memory(config):
    config.add_model_data("model.onnx", b"\x08\x01")
    assert config.spec.decoder.model_bytes == b"\x08\x01"
    config.add_model_data("model.onnx", np.array([1, 2], np.uint8))
    assert config.spec.decoder.model_bytes == b"\x01\x02"
    config.remove_model_data("model.onnx")
    assert config.spec.decoder.model_bytes is None


def test_a_graph_that_comes_from_memory_need_not_be_in_the_folder(tmp_path):
    folder = write_model_folder(tmp_path / "model")
    (folder / "model.onnx").unlink()
    config = Config(folder)
    with pytest.raises(ModelFileError, match=r"model\.onnx"):
        Model(config, runtime=RuntimeConfig())
    config.add_model_data("model.onnx", b"graph")
    config.clear_providers()
    assert config.spec.decoder.model_bytes == b"graph"


def test_content_of_no_use_is_refused(config):
    with pytest.raises(OptionError, match="one-dimensional uint8"):
        config.add_model_data("model.onnx", np.zeros((2, 2), np.float32))
    with pytest.raises(OptionError, match="empty"):
        config.add_model_data("model.onnx", b"")
    with pytest.raises(OptionError, match=r"no content was added for 'other\.onnx'"):
        config.remove_model_data("other.onnx")


def test_device_filters_are_refused(config):
    for call, value in (
        (config.set_decoder_provider_options_hardware_device_type, "gpu"),
        (config.set_decoder_provider_options_hardware_device_id, 1),
        (config.set_decoder_provider_options_hardware_vendor_id, 1),
    ):
        with pytest.raises(CapabilityError, match="'cuda'"):
            call("cuda", value)
    config.clear_decoder_provider_options_hardware_device_type("cuda")


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(OnnxgenError, match="nowhere"):
        Config(tmp_path / "nowhere")


def test_a_model_tells_its_type_and_refuses_what_it_is_not(config):
    model = Model(config, runtime=RuntimeConfig(), backend=fake_backend())
    assert (model.type, model.device_type) == ("llama", "CPU")
    for call in (model.create_multimodal_processor, model.create_streaming_processor):
        with pytest.raises(CapabilityError, match="text only"):
            call()


def test_a_backend_that_was_given_stays_open(config):
    backend = fake_backend()
    with Model(config, runtime=RuntimeConfig(), backend=backend) as model:
        pass
    model.close()
    backend.create_cache(num_seqs=1, num_tokens=4)
