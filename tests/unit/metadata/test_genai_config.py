"""``genai_config.json``: every section, the defaults, and mistakes with their path."""

import json

import pytest

from onnxgen.errors import MetadataError
from onnxgen.metadata.genai_config import GenaiConfig, parse_genai_config, read_genai_config
from onnxgen.metadata.genai_config_decoder import StateGroup, StateUpdate
from onnxgen.metadata.genai_config_session import DeviceFilter, ProviderOptions, canonical_provider_name
from published_models import published


def parse(document: object, *overlays: object) -> GenaiConfig:
    texts = [json.dumps(overlay) for overlay in overlays]
    return parse_genai_config(json.dumps(document), source="genai_config.json", overlays=texts).config


def decoder(**keys: object) -> dict[str, object]:
    return {"model": {"decoder": keys}}


def nested(path: str, value: object) -> object:
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


# as the released builder of onnxruntime-genai writes it, with a value for every key it can write
BUILT = {
    "model": {
        "type": "qwen3",
        "bos_token_id": 151643,
        "eos_token_id": [151645, 151643],
        "pad_token_id": 151643,
        "bot_token_id": 1,
        "eot_token_id": 2,
        "bor_token_id": 3,
        "eor_token_id": 4,
        "context_length": 40960,
        "vocab_size": 151936,
        "decoder": {
            "session_options": {
                "log_id": "onnxruntime-genai",
                "provider_options": [{"cuda": {"enable_cuda_graph": "0"}}],
                "ep.cuda.fpa_intb_gemm": "1",
                "optimization.disable_specified_optimizers": "MatMulNBitsFusion",
                "session.use_device_allocator_for_initializers": "1",
            },
            "filename": "model.onnx",
            "head_size": 128,
            "hidden_size": 1024,
            "inputs": {
                "input_ids": "input_ids",
                "attention_mask": "attention_mask",
                "position_ids": "position_ids",
                "block_table": "block_table",
                "block_table_windowed": "block_table_windowed",
                "cumulative_sequence_lengths": "cumulative_sequence_lengths",
                "past_sequence_lengths": "past_sequence_lengths",
                "attention_metadata": "attention_metadata",
                "logits_indices": "logits_indices",
                "past_key_names": "past_key_values.%d.key",
                "past_value_names": "past_key_values.%d.value",
                "past_key_scale_names": "past_key_values.%d.key_scale",
                "past_value_scale_names": "past_key_values.%d.value_scale",
                "past_conv_names": "past.%d.conv",
                "past_recurrent_names": "past.%d.recurrent",
                "state_update_capture_count": "state_update.capture_count",
                "state_update_active": "state_update.active",
            },
            "outputs": {
                "logits": "logits",
                "hidden_states": "hidden_states",
                "aux_hidden_states": "aux_hidden_states",
                "present_key_names": "present.%d.key",
                "present_value_names": "present.%d.value",
                "present_key_scale_names": "present.%d.key_scale",
                "present_value_scale_names": "present.%d.value_scale",
                "present_conv_names": "present.%d.conv",
                "present_recurrent_names": "present.%d.recurrent",
                "state_update_conv_value_names": "state_update.%d.conv_value",
                "state_update_recurrent_capsule_names": "state_update.%d.recurrent_capsule",
            },
            "num_attention_heads": 16,
            "num_hidden_layers": 28,
            "num_key_value_heads": 8,
            "layer_types": ["conv", "full_attention"],
            "conv_cache_size": 2,
            "sliding_window": {
                "window_size": 512,
                "slide_key_value_cache": False,
                "slide_inputs": False,
                "layers": [0, 2],
                "cache_slack": 0,
            },
            "state_groups": [
                {"kind": "paged_kv", "layer_ids": [1]},
                {"kind": "fixed_conv", "layer_ids": [0]},
            ],
            "state_update_capacity": 4,
            "shared_initializers": [
                {
                    "name": "embed",
                    "data_file": "model.onnx.data",
                    "offset": "0",
                    "length": "4096",
                    "data_type": 10,
                    "shape": [4, 512],
                }
            ],
        },
        "mtp": {
            "enabled": True,
            "filename": "mtp.onnx",
            "num_hidden_layers": 1,
            "num_key_value_heads": 8,
            "head_size": 128,
            "main_hidden_states": "hidden_states",
            "inputs": {"input_ids": "input_ids", "hidden_states": "hidden_states"},
            "outputs": {"logits": "logits", "hidden_states": "hidden_states_out"},
        },
    },
    "search": {
        "diversity_penalty": 0.0,
        "do_sample": True,
        "early_stopping": True,
        "length_penalty": 1.0,
        "max_length": 40960,
        "min_length": 0,
        "no_repeat_ngram_size": 0,
        "num_beams": 1,
        "num_return_sequences": 1,
        "past_present_share_buffer": True,
        "repetition_penalty": 1.0,
        "temperature": 0.6,
        "top_k": 20,
        "top_p": 0.95,
        "chunk_size": 256,
    },
    "engine": {
        "dynamic_batching": {
            "block_size": 256,
            "max_batch_size": 100,
            "prefix_caching": False,
            "gpu_utilization_factor": 0.6,
            "max_scheduled_tokens": 4096,
        }
    },
    "speculative": {"max_draft_tokens": 3},
}


def test_what_the_builder_writes():
    config = parse(BUILT)
    model = config.model
    assert (model.type, model.eos_token_id, model.bot_token_id) == ("qwen3", (151645, 151643), 1)
    options = model.decoder.session_options
    assert options.known.log_id == "onnxruntime-genai"
    assert options.config_entries["ep.cuda.fpa_intb_gemm"] == "1"
    assert options.provider_options == (ProviderOptions("cuda", {"enable_cuda_graph": "0"}),)
    assert model.decoder.inputs.past_recurrent_names == "past.%d.recurrent"
    assert model.decoder.sliding_window is not None
    assert model.decoder.sliding_window.layers == (0, 2)
    assert model.decoder.state_groups is not None
    assert model.decoder.state_groups[1] == StateGroup("fixed_conv", (0,))
    assert model.decoder.shared_initializers[0].shape == (4, 512)
    assert model.mtp is not None
    assert model.mtp.outputs.hidden_states == "hidden_states_out"
    assert (config.search.temperature, config.search.chunk_size) == (0.6, 256)
    assert config.engine.dynamic_batching is not None
    assert config.engine.dynamic_batching.prefix_caching is False
    assert config.speculative.max_draft_tokens == 3


def test_the_smallest_config_has_the_documented_defaults():
    config = parse({"model": {}})
    assert config.model.eos_token_id == ()
    assert config.model.decoder.inputs.past_key_names == "past_key_values.%d.key"
    assert config.model.decoder.outputs.present_value_names == "present.%d.value"
    assert config.model.decoder.inputs.past_conv_names == "past_conv.%d"
    search = config.search
    assert (search.top_k, search.top_p, search.temperature, search.random_seed) == (50, 0.0, 1.0, -1)
    assert (search.batch_size, search.early_stopping, search.chunk_size) == (1, True, None)
    assert config.speculative.max_draft_tokens == 4
    assert config.engine.dynamic_batching is None


def test_every_other_section():
    session = {"session_options": {"intra_op_num_threads": 1}, "run_options": {"a": "b"}}
    config = parse(
        {
            "model": {
                "draft": {"filename": "draft.onnx", "num_hidden_layers": 2},
                "encoder": {"filename": "e.onnx", "hidden_size": 3, "inputs": {"lang_id": "l"}, **session},
                "embedding": {"filename": "emb.onnx", "outputs": {"per_layer_inputs": "p"}, **session},
                "vision": {
                    "filename": "v.onnx",
                    "tokens_per_second": 2,
                    "max_num_patches": 4,
                    "pipeline": [{"patch": {"filename": "p.onnx", "inputs": ["x"], "run_on_cpu": True}}],
                    **session,
                },
                "speech": {
                    "filename": "s.onnx",
                    "adapter_filename": "a",
                    "inputs": {"audio_lengths": "n"},
                    **session,
                },
                "joiner": {"filename": "j.onnx", **session},
                "vad": {"filename": "vad.onnx", "threshold": 0.4, **session},
                "dflash2": {
                    "filename": "d.onnx",
                    "aux_hidden_state_layers": [1, 2],
                    "sampled_proposal": "lattice",
                    "sampling_top_p": 0.9,
                    "inputs": {"q_row_map": "q"},
                    **session,
                },
                "moonshine": {"encoder_filename": "m.onnx", "adapter": {"inputs": {"encoded": "e"}}},
                "audio_output": {"num_codebooks": 8, "depthformer": {"filename": "d.onnx"}},
                "num_mels": 80,
                "preemph": 0.97,
                "tdt_durations": [0, 1, 2],
                "image_token_id": 7,
            },
            "search": {"blank_penalty": 0.5, "audio_top_k": 3, "audio_interleaved": True},
            "speculative": {
                "ngram_size": 3,
                "ngram_chained_lookup": True,
                "min_adaptive_k": 2,
                "cooldown": True,
            },
            "engine": {"static_batching": {"max_batch_size": 8}},
            "runtime_profiles": [
                {
                    "id": "small",
                    "eligibility": {"minimum_total_device_memory_bytes": 1 << 33, "is_integrated": False},
                    "overlay": {
                        "model": {"decoder": {"filename": "small.onnx"}},
                        "engine": {"dynamic_batching": {"num_blocks": 4}},
                        "search": {"chunk_size": 128},
                        "speculative": {"max_draft_tokens": 2},
                    },
                }
            ],
        }
    )
    model = config.model
    assert model.vision is not None
    assert model.vision.pipeline[0][0] == "patch"
    assert model.vision.pipeline[0][1].run_on_cpu is True
    assert model.encoder is not None
    assert model.encoder.session_options is not None
    assert model.encoder.session_options.known.intra_op_num_threads == 1
    assert model.tdt_durations == (0, 1, 2)
    assert model.moonshine is not None
    assert model.moonshine.adapter.inputs == {"encoded": "e"}
    assert config.engine.static_batching is not None
    assert config.runtime_profiles[0].overlay.search.chunk_size == 128
    assert config.runtime_profiles[0].eligibility.minimum_total_device_memory_bytes == 1 << 33


@pytest.mark.parametrize(
    "pipeline",
    [
        [{"embed": {"filename": "e.onnx"}}, {"head": {"filename": "h.onnx", "is_lm_head": True}}],
        [{"embed": {"filename": "e.onnx"}, "head": {"filename": "h.onnx", "is_lm_head": True}}],
        {"embed": {"filename": "e.onnx"}, "head": {"filename": "h.onnx", "is_lm_head": True}},
    ],
)
def test_the_forms_of_a_pipeline_mean_the_same(pipeline):
    stages = parse(decoder(pipeline=pipeline)).model.decoder.pipeline
    assert [(name, stage.filename, stage.is_lm_head) for name, stage in stages] == [
        ("embed", "e.onnx", False),
        ("head", "h.onnx", True),
    ]


def test_a_stage_with_everything():
    stage = {
        "filename": "s.onnx",
        "session_options": {"log_severity_level": 3},
        "run_options": {"a": "b"},
        "inputs": ["x"],
        "outputs": ["y"],
        "output_names_forwarder": {"y": "z"},
        "run_on_prompt": False,
        "run_on_token_gen": False,
        "is_lm_head": True,
        "inherit_session_options": True,
        "reset_session_idx": 0,
    }
    ((_, read),) = parse(decoder(pipeline=[{"s": stage}])).model.decoder.pipeline
    assert read.output_names_forwarder == {"y": "z"}
    assert (read.run_on_prompt, read.reset_session_idx) == (False, 0)


def test_state_groups_with_updates():
    group = {"kind": "fixed_recurrent", "layer_ids": [0], "state_update": {"enabled": True, "capacity": 4}}
    groups = parse(decoder(state_groups=[group], num_hidden_layers=1)).model.decoder.state_groups
    assert groups == (StateGroup("fixed_recurrent", (0,), StateUpdate(enabled=True, capacity=4)),)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("modle", {}, r"genai_config\.json: modle is unknown; did you mean 'model'\?"),
        ("model.decoder.inputs.input_idz", "x", r"model\.decoder\.inputs\.input_idz is unknown; did you mean 'input_ids'"),
        ("model.decoder.rope_switch_length", 4096, r"model\.decoder\.rope_switch_length is unknown"),
        ("model.decoder.outputs.logit", "x", r"outputs\.logit is unknown; did you mean 'logits'"),
        ("model.decoder.pipeline", [{"a": {"file": "x"}}], r"model\.decoder\.pipeline\[0\]\.a\.file is unknown"),
        ("model.decoder.pipeline", [{"filename": "x"}], r"pipeline\[0\]\.filename must be an object"),
        ("model.decoder.pipeline", 3, r"pipeline must be an object"),
        ("model.decoder.state_groups", [], r"state_groups is empty"),
        ("model.decoder.state_groups", [{"kind": "x", "layer_ids": []}], r"state_groups\[0\]\.kind is 'x'"),
        ("model.decoder.state_groups", [{"kind": "paged_kv"}], r"state_groups\[0\]\.layer_ids is missing"),
        ("model.decoder.state_groups", [{"kind": "fixed_conv", "layer_ids": [3]}], r"state_groups\[0\] names layer 3; num_hidden_layers is 0"),
        ("model.dflash2.block_size", 1, r"block_size is 1; it must be at least 2"),
        ("model.dspark.sampling_temperature", 0, r"sampling_temperature is 0\.0; it must be above 0"),
        ("model.decoder.sliding_window.alignment", "middle", r"alignment is 'middle'; known are left, right"),
        ("model.decoder.num_hidden_layers", -1, r"num_hidden_layers is -1; it must be at least 0"),
        ("model.decoder.num_hidden_layers", 2.5, r"num_hidden_layers must be a whole number"),
        ("model.decoder.num_hidden_layers", True, r"num_hidden_layers must be a whole number, found true"),
        ("model.decoder.session_options", None, r"session_options must be an object, found null"),
        ("model.decoder.session_options.intra_op_num_threads", "4", r"intra_op_num_threads must be a whole number"),
        ("model.decoder.session_options.enable_mem_pattern", "1", r"enable_mem_pattern must be true or false"),
        ("model.decoder.session_options.graph_optimization_level", "ALL", r"known are ORT_DISABLE_ALL"),
        ("model.decoder.session_options.inter_op_threads", 4, r"must be a string.*did you mean 'inter_op_num_threads'"),
        ("model.decoder.session_options.provider_options", {}, r"provider_options must be an array"),
        ("model.decoder.session_options.provider_options", [{"cuda": {"device_id": 0}}], r"\[0\]\.cuda\.device_id must be a string"),
        ("model.decoder.session_options.provider_options", [{"cuda": {"x": {}}}], r"cuda\.x must be a string, found an object"),
        ("model.decoder.run_options.a", 3, r"run_options\.a must be a string"),
        ("model.vocab_size", 2.5, r"vocab_size must be a whole number, found 2\.5"),
        ("model.context_length", 0, r"context_length is 0; it must be at least 1"),
        ("model.type", 3, r"model\.type must be a string, found the number 3"),
        ("model.type", None, r"model\.type must be a string, found null"),
        ("model.eos_token_id", [1, "2"], r"eos_token_id\[1\] must be a whole number"),
        ("model.eos_token_id", "2", r"eos_token_id must be a whole number"),
        ("model.bos_token_id", None, r"bos_token_id must be a whole number, found null"),
        ("model.dspark.sampling_min_p", 1.5, r"sampling_min_p is 1\.5; it must lie in \[0, 1\]"),
        ("model.vision.pipeline", [{"a": {"is_lm_head": True}}], r"vision\.pipeline\[0\]\.a\.is_lm_head is unknown"),
        ("search.temprature", 1, r"search\.temprature is unknown; did you mean 'temperature'"),
        ("search.top_k", 1.5, r"search\.top_k must be a whole number"),
        ("search.do_sample", 1, r"search\.do_sample must be true or false"),
        ("search.chunk_size", "8", r"search\.chunk_size must be a number"),
        ("speculative.max_draft_tokens", 17, r"max_draft_tokens is 17; it must lie in \[1, 16\]"),
        ("speculative.ngram_size", 1, r"ngram_size is 1; it must be 0 \(off\) or lie in \[2, 16\]"),
        ("engine.batching", {}, r"engine\.batching is unknown"),
        ("engine.dynamic_batching.gpu_utilization_factor", 0, r"it must lie in \(0, 1\]"),
        ("engine", {"dynamic_batching": {}, "static_batching": {}}, r"engine has dynamic_batching and static_batching"),
        ("runtime_profiles", [{"id": ""}], r"runtime_profiles\[0\]\.id is empty"),
        ("runtime_profiles", [{"id": "a"}], r"runtime_profiles\[0\]\.eligibility is missing"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_their_path(path, value, message):
    document = nested(path, value)
    assert isinstance(document, dict)
    document.setdefault("model", {})
    with pytest.raises(MetadataError, match=message):
        parse(document)


@pytest.mark.parametrize(
    "path",
    [
        *(
            f"model.{name}.filename"
            for name in ("decoder", "draft", "encoder", "embedding", "vision", "speech")
        ),
        *(f"model.{name}.filename" for name in ("joiner", "vad", "mtp", "dflash2")),
        *(
            f"model.{name}.{key}"
            for name in ("vision", "speech")
            for key in ("config_filename", "adapter_filename")
        ),
        *("model.moonshine.encoder_filename", "model.audio_output.depthformer.filename"),
    ],
)
@pytest.mark.parametrize("name", ["../x.onnx", "/x.onnx", "C:\\x.onnx", "a\\..\\..\\x", "\\x"])
def test_file_names_stay_in_the_folder(path, name):
    with pytest.raises(MetadataError, match="file name"):
        parse(nested(path, name))


def test_file_names_of_stages_and_shared_weights_stay_in_the_folder():
    with pytest.raises(MetadataError, match=r"pipeline\[0\]\.a\.filename: file name"):
        parse(decoder(pipeline=[{"a": {"filename": "../x"}}]))
    with pytest.raises(MetadataError, match=r"shared_initializers\[0\]\.data_file: file name"):
        parse(decoder(shared_initializers=[{"name": "a", "data_file": "../x"}]))


def test_both_block_drafters_are_one_too_many():
    with pytest.raises(MetadataError, match="model has dflash2 and dspark"):
        parse({"model": {"dflash2": {}, "dspark": {}}})


def test_two_profiles_of_one_name_are_one_too_many():
    profile = {"id": "a", "eligibility": {"minimum_total_device_memory_bytes": 0}}
    with pytest.raises(MetadataError, match="two profiles named 'a'"):
        parse({"model": {}, "runtime_profiles": [profile, profile]})


def test_a_config_needs_a_model():
    with pytest.raises(MetadataError, match="model is missing"):
        parse({})


@pytest.mark.parametrize(("said", "read"), [(8, 8), (8.7, 8), (0, None), (-1, None)])
def test_chunks_of_nothing_are_no_chunks(said, read):
    assert parse({"model": {}, "search": {"chunk_size": said}}).search.chunk_size == read


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("CUDAExecutionProvider", "cuda"),
        ("CUDA", "cuda"),
        ("cpu", "CPU"),
        ("CPUExecutionProvider", "CPU"),
        ("qnn", "QNN"),
        ("webgpu", "WebGPU"),
        ("DmlExecutionProvider", "DML"),
        ("nvtensorrtrtx", "NvTensorRtRtx"),
        ("MyPluginExecutionProvider", "MyPluginExecutionProvider"),
        ("ExecutionProvider", "ExecutionProvider"),
    ],
)
def test_provider_names_have_one_spelling(name, canonical):
    assert canonical_provider_name(name) == canonical


def test_options_of_a_provider_that_stands_twice_are_joined():
    options = [
        {"cuda": {"device_id": "0", "a": "1", "device_filtering_options": {"hardware_device_type": "GPU"}}},
        {"CUDAExecutionProvider": {"device_id": "1"}},
        {"CPU": {}},
    ]
    read = parse(decoder(session_options={"provider_options": options})).model.decoder.session_options
    assert read.provider_options == (
        ProviderOptions("cuda", {"device_id": "1", "a": "1"}, DeviceFilter("gpu")),
        ProviderOptions("CPU"),
    )


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ({"hardware_device_type": "tpu"}, "known are cpu, gpu and npu"),
        ({"hardware_device_id": -1}, "must lie in"),
        ({"hardware_vendor_id": 2**32}, "must lie in"),
        ({"vendor": "x"}, "is unknown"),
    ],
)
def test_wrong_device_filters_are_refused(devices, message):
    options = {"provider_options": [{"X": {"device_filtering_options": devices}}]}
    with pytest.raises(MetadataError, match=message):
        parse(decoder(session_options=options))


class TestOverlays:
    def test_objects_are_merged_and_the_rest_is_replaced(self):
        config = parse(
            BUILT,
            {"model": {"eos_token_id": [7], "decoder": {"filename": "other.onnx"}}, "search": {"top_k": 1}},
        )
        assert config.model.eos_token_id == (7,)
        assert config.model.decoder.filename == "other.onnx"
        assert config.model.decoder.num_hidden_layers == 28
        assert (config.search.top_k, config.search.top_p) == (1, 0.95)

    def test_later_ones_win(self):
        assert parse(BUILT, {"search": {"top_k": 1}}, {"search": {"top_k": 2}}).search.top_k == 2

    def test_provider_options_are_joined_by_provider(self):
        change = {"provider_options": [{"CUDAExecutionProvider": {"device_id": "1"}}, {"DML": {}}]}
        config = parse(BUILT, decoder(session_options=change))
        assert config.model.decoder.session_options.provider_options == (
            ProviderOptions("cuda", {"enable_cuda_graph": "0", "device_id": "1"}),
            ProviderOptions("DML"),
        )

    def test_the_later_way_of_batching_stays(self):
        config = parse(BUILT, {"engine": {"static_batching": {"max_batch_size": 2}}})
        assert config.engine.dynamic_batching is None
        assert config.engine.static_batching is not None

    def test_sections_may_be_new(self):
        assert parse({"model": {}}, {"search": {"do_sample": True}}).search.do_sample is True

    @pytest.mark.parametrize(
        ("overlay", "message"),
        [
            (
                {"search": {"topk": 1}},
                r"overlay 2 of genai_config\.json: search\.topk is unknown; did you mean 'top_k'",
            ),
            ({"search": 3}, r"overlay 2 of genai_config\.json: search must be an object"),
            ([], r"overlay 2 of genai_config\.json: the document must be an object"),
            (decoder(session_options={"provider_options": {}}), "provider_options must be an array"),
            (
                decoder(session_options={"provider_options": ["cuda"]}),
                r"provider_options\[0\] must be an object",
            ),
        ],
    )
    def test_mistakes_name_the_overlay(self, overlay, message):
        with pytest.raises(MetadataError, match=message):
            parse(BUILT, {}, overlay)

    def test_text_that_is_no_json_names_the_overlay(self):
        with pytest.raises(MetadataError, match=r"overlay 1 of f is not valid JSON: line 1, column 2"):
            parse_genai_config(json.dumps(BUILT), source="f", overlays=["{"])

    def test_the_document_has_the_changes_and_the_base_stays(self):
        base = json.dumps(BUILT)
        read = parse_genai_config(base, source="f", overlays=['{"search": {"top_k": 3}}'])
        assert read.document["search"]["top_k"] == 3
        assert parse_genai_config(base, source="f").document == BUILT


class TestText:
    def test_a_byte_order_mark_is_accepted(self, tmp_path):
        path = tmp_path / "genai_config.json"
        path.write_bytes(b"\xef\xbb\xbf" + json.dumps(BUILT).encode())
        assert read_genai_config(path).config.model.type == "qwen3"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('{\n // the model\n "model": {}}', r"line 2, column 2.*comments"),
            ('{"model": {},}', "comma too many"),
            ('{"model": {}, "model": {}}', "the key 'model' stands twice"),
            ('{"model": {"log_eps": NaN}}', "NaN is not a JSON number"),
            ('{"model": {', "line 1, column 12"),
        ],
    )
    def test_broken_files_are_named(self, tmp_path, text, message):
        path = tmp_path / "genai_config.json"
        path.write_text(text)
        with pytest.raises(MetadataError, match=rf"(?s)genai_config\.json.*{message}"):
            read_genai_config(path)

    def test_an_lfs_pointer_is_named(self, tmp_path):
        path = tmp_path / "genai_config.json"
        path.write_text("version https://git-lfs.github.com/spec/v1\n")
        with pytest.raises(MetadataError, match="Git LFS pointer"):
            read_genai_config(path)


def test_the_published_configs_are_read():
    types = {read_genai_config(path).config.model.type for path in published("").rglob("genai_config.json")}
    assert {"gpt2", "whisper", "phi3v", "marian-ssru", "lfm2"} <= types
