"""Model folders to a `ModelSpec`."""

import json
import logging
import sys
from pathlib import Path

import pytest

from onnxgen.backends.base import ProviderSpec
from onnxgen.errors import (
    CapabilityError,
    MetadataError,
    ModelFileError,
    ModelNotFoundError,
    OptionError,
)
from onnxgen.metadata import load_model_spec

MODEL = {
    "type": "llama",
    "vocab_size": 200100,
    "context_length": 8192,
    "eos_token_id": 2,
    "decoder": {"filename": "model.onnx", "num_hidden_layers": 2},
}


def folder(tmp_path, model=None, **sections):
    path = tmp_path / "模型 é"
    path.mkdir(exist_ok=True)
    (path / "model.onnx").write_bytes(b"onnx")
    (path / "genai_config.json").write_text(json.dumps({"model": {**MODEL, **(model or {})}, **sections}))
    return path


def with_decoder(**keys):
    return {"decoder": {**MODEL["decoder"], **keys}}


class TestDecoder:
    def test_what_a_plain_folder_means(self, tmp_path):
        path = folder(tmp_path, search={"top_k": 3, "max_length": 100})
        spec = load_model_spec(path)
        assert spec.folder == spec.tokenizer_dir == path
        assert spec.source == path / "genai_config.json"
        assert (spec.model_type, spec.vocab_size, spec.context_length) == ("llama", 200100, 8192)
        assert (spec.search.top_k, spec.search.max_length, spec.search.temperature) == (3, 100, 1.0)
        decoder = spec.decoder
        assert decoder.path == path / "model.onnx"
        assert (decoder.num_layers, decoder.vocab_size, decoder.context_length) == (2, 200100, 8192)
        assert decoder.inputs["past_key_names"] == "past_key_values.%d.key"
        assert decoder.outputs["present_value_names"] == "present.%d.value"
        assert decoder.rope_switch_length is None
        assert decoder.model_bytes is None
        assert (decoder.providers, decoder.session_options, decoder.run_options) == ((), {}, {})
        assert spec.raw["model"]["type"] == "llama"

    def test_names_of_the_folder_win_and_unset_ones_are_absent(self, tmp_path):
        inputs = {"past_names": "past_%d", "input_ids": "ids"}
        decoder = load_model_spec(folder(tmp_path, with_decoder(inputs=inputs))).decoder
        assert decoder.inputs["past_names"] == "past_%d"
        assert decoder.inputs["input_ids"] == "ids"
        assert "hidden_states" not in decoder.inputs
        assert "present_names" not in decoder.outputs

    def test_session_run_and_provider_options(self, tmp_path):
        options = {
            "intra_op_num_threads": 2,
            "log_id": "x",
            "session.use_mmap": "1",
            "provider_options": [{"cuda": {"device_id": "1"}}, {"CPUExecutionProvider": {}}],
        }
        decoder = load_model_spec(
            folder(tmp_path, with_decoder(session_options=options, run_options={"a": "b"}))
        ).decoder
        assert decoder.session_options == {"intra_op_num_threads": 2, "log_id": "x", "session.use_mmap": "1"}
        assert decoder.run_options == {"a": "b"}
        assert decoder.providers == (ProviderSpec("cuda", {"device_id": "1"}), ProviderSpec("CPU"))

    def test_the_callers_providers_replace_the_folders(self, tmp_path):
        path = folder(tmp_path, with_decoder(session_options={"provider_options": [{"cuda": {}}]}))
        assert load_model_spec(path, providers=()).decoder.providers == ()
        mine = (ProviderSpec("X", {"a": "1"}),)
        assert load_model_spec(path, providers=mine).decoder.providers == mine

    def test_max_length_zero_means_the_context(self, tmp_path):
        assert load_model_spec(folder(tmp_path, search={"max_length": 0})).search.max_length == 8192
        assert load_model_spec(folder(tmp_path)).search.max_length == 8192

    def test_overlays_change_the_meaning(self, tmp_path):
        spec = load_model_spec(folder(tmp_path), overlays=['{"search": {"top_k": 7}}'])
        assert spec.search.top_k == 7
        assert spec.raw["search"]["top_k"] == 7

    @pytest.mark.parametrize("key", ["vocab_size", "context_length"])
    def test_what_a_decoder_needs_is_asked_for(self, tmp_path, key):
        model = {k: v for k, v in MODEL.items() if k != key}
        path = folder(tmp_path)
        (path / "genai_config.json").write_text(json.dumps({"model": model}))
        with pytest.raises(MetadataError, match=rf"genai_config\.json: model\.{key} is not set"):
            load_model_spec(path)

    @pytest.mark.parametrize("key", ["filename", "num_hidden_layers"])
    def test_what_a_decoder_section_needs_is_asked_for(self, tmp_path, key):
        decoder = {k: v for k, v in MODEL["decoder"].items() if k != key}
        with pytest.raises(MetadataError, match=rf"model\.decoder\.{key} is (not set|missing)"):
            load_model_spec(folder(tmp_path, {"decoder": decoder}))

    def test_a_library_of_the_folder_becomes_a_path_in_it(self, tmp_path):
        path = folder(tmp_path, with_decoder(session_options={"custom_ops_library": "ops.so"}))
        assert load_model_spec(path).decoder.session_options["custom_ops_library"] == str(path / "ops.so")

    @pytest.mark.parametrize("library", ["/usr/lib/evil.so", "../evil.so"])
    def test_a_library_elsewhere_is_refused(self, tmp_path, library):
        path = folder(tmp_path, with_decoder(session_options={"custom_ops_library": library}))
        with pytest.raises(MetadataError, match="file name"):
            load_model_spec(path)


class TestTokens:
    def test_one_end_or_several(self, tmp_path):
        assert load_model_spec(folder(tmp_path)).tokens.eos == (2,)
        assert load_model_spec(folder(tmp_path, {"eos_token_id": [5, 4]})).tokens.eos == (5, 4)

    def test_other_files_may_name_further_ends(self, tmp_path):
        path = folder(tmp_path, {"eos_token_id": 5})
        (path / "generation_config.json").write_text('{"eos_token_id": [4, 5, 999999]}')
        (path / "tokenizer_config.json").write_text(
            '{"eos_token": "</s>", "chat_template": "{{ m }}<|im_end|>"}'
        )
        added = [{"id": 6, "content": "</s>"}, {"id": 7, "content": "<|im_end|>"}]
        (path / "tokenizer.json").write_text(json.dumps({"added_tokens": added}))
        assert load_model_spec(path).tokens.eos == (5, 4, 6, 7)
        given = load_model_spec(path, overlays=['{"model": {"eos_token_id": [3]}}'])
        assert given.tokens.eos == (3,)

    def test_without_an_end_the_padding_ends(self, tmp_path):
        tokens = load_model_spec(folder(tmp_path, {"eos_token_id": [], "pad_token_id": 9})).tokens
        assert (tokens.eos, tokens.pad, tokens.bos) == ((9,), 9, None)
        assert load_model_spec(folder(tmp_path, {"eos_token_id": []})).tokens.eos == ()

    @pytest.mark.parametrize(
        ("kind", "tool", "reasoning"),
        [
            ("qwen2", (151657, 151658), (None, None)),
            ("qwen3", (151657, 151658), (151667, 151668)),
            ("phi3", (200025, 200026), (None, None)),
            ("llama", (None, None), (None, None)),
        ],
    )
    def test_ids_known_by_type(self, tmp_path, kind, tool, reasoning):
        tokens = load_model_spec(folder(tmp_path, {"type": kind})).tokens
        assert (tokens.begin_tool_call, tokens.end_tool_call) == tool
        assert (tokens.begin_reasoning, tokens.end_reasoning) == reasoning

    def test_ids_of_the_folder_win(self, tmp_path):
        ids = {"type": "qwen3", "bot_token_id": 0, "eot_token_id": 1, "bor_token_id": 2, "eor_token_id": 3}
        tokens = load_model_spec(folder(tmp_path, ids)).tokens
        assert (tokens.begin_tool_call, tokens.end_tool_call) == (0, 1)
        assert (tokens.begin_reasoning, tokens.end_reasoning) == (2, 3)

    def test_ids_known_by_type_must_be_in_the_vocabulary(self, tmp_path):
        tokens = load_model_spec(folder(tmp_path, {"type": "qwen3", "vocab_size": 1000})).tokens
        assert tokens.begin_tool_call is tokens.begin_reasoning is None


class TestRopeSwitch:
    @pytest.mark.parametrize(
        ("kind", "context", "switch"),
        [
            ("phi3", 131072, 4096),
            ("phi3", 4096, None),
            ("phimoe", 4097, 4096),
            ("phi3small", 131072, 8192),
            ("llama", 131072, None),
        ],
    )
    def test_folders_that_cannot_say_it(self, tmp_path, kind, context, switch):
        spec = load_model_spec(folder(tmp_path, {"type": kind, "context_length": context}))
        assert spec.decoder.rope_switch_length == switch

    @pytest.mark.parametrize("said", [64, None])
    def test_our_own_folders_say_it(self, tmp_path, said):
        path = folder(tmp_path, {"type": "phi3"})
        (path / "onnxgen_build.json").write_text(json.dumps({"rope_switch_length": said}))
        assert load_model_spec(path).decoder.rope_switch_length == said


class TestTokenizerFolder:
    def test_another_folder_inside(self, tmp_path):
        path = folder(tmp_path, {"tokenizer_dir": "tok"})
        (path / "tok").mkdir()
        assert load_model_spec(path).tokenizer_dir == path / "tok"

    def test_a_missing_one_is_named(self, tmp_path):
        with pytest.raises(
            MetadataError, match=r"model\.tokenizer_dir is 'tok', and there is no such folder"
        ):
            load_model_spec(folder(tmp_path, {"tokenizer_dir": "tok"}))

    def test_one_outside_is_refused(self, tmp_path):
        with pytest.raises(MetadataError, match="leaves the model folder"):
            load_model_spec(folder(tmp_path, {"tokenizer_dir": "../tok"}))

    def test_a_shared_asset_is_a_capability(self, tmp_path):
        with pytest.raises(CapabilityError, match="shared asset of a model package"):
            load_model_spec(folder(tmp_path, {"tokenizer_dir": "sha256:00ff/tok"}))


class TestMoreThanADecoder:
    @pytest.mark.parametrize(
        "section", ["encoder", "vision", "speech", "joiner", "vad", "moonshine", "audio_output"]
    )
    def test_other_graphs_are_named(self, tmp_path, section):
        with pytest.raises(
            CapabilityError, match=rf"genai_config\.json: this folder is .* '{section}' section is not"
        ):
            load_model_spec(folder(tmp_path, {section: {}}))

    def test_pipelines_are_named(self, tmp_path):
        path = folder(tmp_path, with_decoder(pipeline=[{"a": {"filename": "a.onnx"}}]))
        with pytest.raises(CapabilityError, match="a pipeline of 1 graphs"):
            load_model_spec(path)

    def test_a_prompt_through_a_sliding_window_is_named(self, tmp_path):
        with pytest.raises(CapabilityError, match="sliding window of 64 tokens"):
            load_model_spec(folder(tmp_path, with_decoder(sliding_window={"window_size": 64})))

    def test_a_window_that_only_bounds_caches_is_the_backends_business(self, tmp_path):
        window = {"window_size": 64, "slide_inputs": False, "slide_key_value_cache": False, "layers": [0]}
        load_model_spec(folder(tmp_path, with_decoder(sliding_window=window)))

    def test_device_filters_are_named(self, tmp_path):
        options = {"provider_options": [{"X": {"device_filtering_options": {"hardware_device_type": "npu"}}}]}
        with pytest.raises(CapabilityError, match="device_filtering_options of provider 'X'"):
            load_model_spec(folder(tmp_path, with_decoder(session_options=options)))

    @pytest.mark.parametrize("section", ["dflash2", "dspark"])
    def test_drafters_are_left_aside_with_a_warning(self, tmp_path, section, caplog):
        with caplog.at_level(logging.WARNING):
            load_model_spec(folder(tmp_path, {section: {}}))
        assert f"the '{section}' section is not used yet" in caplog.text

    def test_a_draft_is_a_decoder_beside_the_decoder(self, tmp_path):
        path = folder(tmp_path, {"draft": {**MODEL["decoder"], "filename": "small.onnx"}})
        (path / "small.onnx").touch()
        spec = load_model_spec(path)
        assert spec.draft is not None
        assert spec.draft.path == path / "small.onnx"
        assert (spec.draft.vocab_size, spec.draft.num_layers) == (spec.vocab_size, spec.decoder.num_layers)

    @pytest.mark.parametrize("key", ["filename", "num_hidden_layers"])
    def test_a_draft_needs_what_a_decoder_needs(self, tmp_path, key):
        draft = {name: value for name, value in MODEL["decoder"].items() if name != key}
        with pytest.raises(MetadataError, match=rf"model\.draft\.{key} is (not set|missing)"):
            load_model_spec(folder(tmp_path, {"draft": draft}))

    def test_required_capabilities_beside_a_genai_config_count(self, tmp_path):
        path = folder(tmp_path)
        (path / "inference_metadata.yaml").write_text("required_capabilities: [telepathy]\nwhatever: 1\n")
        with pytest.raises(
            CapabilityError, match=r"inference_metadata\.yaml: the model requires 'telepathy'"
        ):
            load_model_spec(path)

    def test_capabilities_that_we_have_are_fine(self, tmp_path):
        path = folder(tmp_path)
        (path / "inference_metadata.yaml").write_text("required_capabilities: [kv_cache]\n")
        assert load_model_spec(path).model_type == "llama"


class TestModelData:
    def test_content_from_memory_needs_no_file(self, tmp_path):
        path = folder(tmp_path)
        (path / "model.onnx").unlink()
        spec = load_model_spec(path, model_data={"model.onnx": b"bytes"})
        assert spec.decoder.model_bytes == b"bytes"
        assert spec.decoder.path == path / "model.onnx"

    def test_content_that_nobody_reads_is_refused(self, tmp_path):
        with pytest.raises(OptionError, match=r"given for 'modle\.onnx'.*did you mean 'model\.onnx'"):
            load_model_spec(folder(tmp_path), model_data={"modle.onnx": b"x"})


class TestBadFolders:
    def test_a_missing_folder(self, tmp_path):
        with pytest.raises(ModelNotFoundError, match="there is no folder"):
            load_model_spec(tmp_path / "none")

    def test_a_file(self, tmp_path):
        path = folder(tmp_path) / "model.onnx"
        with pytest.raises(ModelNotFoundError, match="is a file; a model is a folder"):
            load_model_spec(path)

    def test_an_empty_folder_says_what_a_model_looks_like(self, tmp_path):
        with pytest.raises(
            ModelNotFoundError, match=r"no genai_config\.json and no inference_metadata\.yaml\. A model"
        ):
            load_model_spec(tmp_path)

    def test_a_checkpoint_says_how_to_build_it(self, tmp_path):
        (tmp_path / "config.json").write_text("{}")
        (tmp_path / "model-00001-of-00002.safetensors").write_bytes(b"x")
        with pytest.raises(ModelNotFoundError, match="run 'onnxgen build"):
            load_model_spec(tmp_path)

    def test_a_gguf_says_how_to_build_it(self, tmp_path):
        (tmp_path / "smol.gguf").write_bytes(b"x")
        with pytest.raises(ModelNotFoundError, match=r"smol\.gguf: run 'onnxgen build"):
            load_model_spec(tmp_path)

    def test_a_model_package_is_a_capability(self, tmp_path):
        (tmp_path / "manifest.json").write_text("{}")
        with pytest.raises(CapabilityError, match="model package"):
            load_model_spec(tmp_path)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (None, "does not exist"),
            (b"", "is empty"),
            (b"version https://git-lfs.github.com/spec/v1\n", "LFS"),
        ],
    )
    def test_a_model_file_that_is_none(self, tmp_path, content, message):
        path = folder(tmp_path)
        (path / "model.onnx").unlink()
        if content is not None:
            (path / "model.onnx").write_bytes(content)
        with pytest.raises(ModelFileError, match=message):
            load_model_spec(path)

    @pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")
    def test_a_model_file_that_is_a_link_out_is_refused(self, tmp_path):
        path = folder(tmp_path)
        (tmp_path / "elsewhere.onnx").write_bytes(b"x")
        (path / "model.onnx").unlink()
        (path / "model.onnx").symlink_to("../elsewhere.onnx")
        with pytest.raises(MetadataError, match="outside the model folder"):
            load_model_spec(path)

    @pytest.mark.parametrize("name", ["genai_config.json", "inference_metadata.yaml"])
    def test_zero_bytes_of_metadata_are_named(self, tmp_path, name):
        path = folder(tmp_path)
        (path / name).write_bytes(b"")
        with pytest.raises(MetadataError, match=rf"{name} is empty"):
            load_model_spec(path)

    def test_the_working_directory_may_change_after_loading(self, tmp_path, monkeypatch):
        path = folder(tmp_path)
        monkeypatch.chdir(tmp_path)
        spec = load_model_spec(Path(path.name))
        monkeypatch.chdir(path)
        assert spec.decoder.path.is_file()
        assert spec.tokenizer_dir == spec.folder == path


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")
def test_metadata_whose_content_is_gone_is_not_taken_for_absent(tmp_path):
    path = folder(tmp_path)
    (path / "genai_config.json").unlink()
    (path / "genai_config.json").symlink_to("blobs/abc")
    with pytest.raises(MetadataError, match=r"genai_config\.json is a link to .*which does not exist"):
        load_model_spec(path)
