"""``inference_metadata.yaml``: decoders are read, everything else is named."""

import copy
import json

import pytest
import yaml

from onnxgen.errors import CapabilityError, MetadataError, ModelFileError
from onnxgen.metadata import load_model_spec
from onnxgen.metadata.inference_metadata import read_inference_metadata
from onnxgen.metadata.model_spec import SearchDefaults

LAYERS = range(3)
DOCUMENT = {
    "schema_version": "v1",
    "model": {
        "attention": {"type": "grouped_query", "num_attention_heads": 4, "num_kv_heads": 2, "head_dim": 8},
        "io": {
            "sequence_source": "token_ids",
            "token_input": "input_ids",
            "attention_mask_input": "mask",
            "position_ids_input": "positions",
            "logits_output": "out",
            "kv_inputs": [f"past.{i}.{part}" for i in LAYERS for part in ("key", "value")],
            "kv_outputs": [f"present.{i}.{part}" for i in LAYERS for part in ("key", "value")],
            "kv_layout": "head_major_bnsh",
            "kv_ownership": "owned",
            "aliasing": "permitted",
        },
        "max_sequence_length": 2048,
        "vocab_size": 1000,
        "runtime_configurable": {
            "chunked_prefill": {"chunk_size": 128},
            "continuous_batching": True,
            "prefix_cache": False,
        },
        "mixture_of_experts": {"routed_expert_count": 8},
    },
    "generation": {"defaults": {"do_sample": True, "temperature": 0.5, "top_k": 7, "max_length": 99}},
    "package": {
        "tokenizer": {
            "algorithm": "bpe",
            "vocab_size": 1000,
            "byte_level": True,
            "artifacts": [{"location": "tokenizer.json"}],
            "special_tokens": {
                "eos_token": {"content": "</s>", "id": 2},
                "bos_token": {"content": "<s>", "id": 1},
                "pad_token": {"content": "<pad>", "id": 0},
            },
        },
        "constraint_languages": [],
    },
    "quantization": {"default": "int4", "overrides": [{"precision": "int8", "layers": [0]}]},
    "hardware_requirements": {"min_memory_gb": 0.5, "required_dtypes": ["float32"]},
    "required_capabilities": ["grouped_query_attention"],
    "profiles": {"embedding": {"kind": "embedding", "version": "1", "requirement": "ignorable"}},
}


def changed(path, value):
    document = copy.deepcopy(DOCUMENT)
    *steps, last = path.split(".")
    place = document
    for step in steps:
        place = place.setdefault(step, {})
    if value is None:
        del place[last]
    else:
        place[last] = value
    return document


def folder(tmp_path, document=DOCUMENT, name="inference_metadata.yaml"):
    (tmp_path / "model.onnx").write_bytes(b"x")
    text = json.dumps(document) if name.endswith("json") else yaml.safe_dump(document, allow_unicode=True)
    (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "name", ["inference_metadata.yaml", "inference_metadata.yml", "inference_metadata.json"]
)
def test_what_a_decoder_means(tmp_path, name):
    spec = load_model_spec(folder(tmp_path, name=name))
    assert (spec.context_length, spec.vocab_size) == (2048, 1000)
    assert spec.source == tmp_path / name
    assert spec.tokenizer_dir == tmp_path
    assert spec.required_capabilities == ("grouped_query_attention",)
    assert (spec.tokens.bos, spec.tokens.eos, spec.tokens.pad) == (1, (2,), 0)
    assert spec.search == SearchDefaults(
        do_sample=True,
        temperature=0.5,
        top_k=7,
        max_length=99,
        chunk_size=128,
        past_present_share_buffer=True,
    )
    assert spec.decoder.path == tmp_path / "model.onnx"
    assert spec.decoder.num_layers == 3
    assert spec.decoder.inputs == {
        "input_ids": "input_ids",
        "attention_mask": "mask",
        "position_ids": "positions",
        "past_key_names": "past.%d.key",
        "past_value_names": "past.%d.value",
    }
    assert spec.decoder.outputs == {
        "logits": "out",
        "present_key_names": "present.%d.key",
        "present_value_names": "present.%d.value",
    }
    assert spec.raw["quantization"]["default"] == "int4"


def test_every_value_of_the_document_is_read(tmp_path):
    metadata, _ = read_inference_metadata(folder(tmp_path) / "inference_metadata.yaml")
    assert metadata.model.attention is not None
    assert metadata.model.attention.head_dim == 8
    assert metadata.quantization is not None
    assert metadata.quantization.overrides is not None
    assert metadata.quantization.overrides[0].layers == (0,)
    assert metadata.hardware_requirements is not None
    assert metadata.hardware_requirements.min_memory_gb == 0.5


def test_genai_config_goes_first(tmp_path):
    folder(tmp_path)
    model = {
        "type": "x",
        "vocab_size": 5,
        "context_length": 6,
        "decoder": {"filename": "model.onnx", "num_hidden_layers": 1},
    }
    (tmp_path / "genai_config.json").write_text(json.dumps({"model": model}))
    assert load_model_spec(tmp_path).vocab_size == 5


def test_an_overlay_has_nothing_to_change(tmp_path):
    with pytest.raises(MetadataError, match=r"an overlay changes genai_config\.json, which this folder"):
        load_model_spec(folder(tmp_path), overlays=["{}"])


def test_a_tied_cache_of_keys_and_values(tmp_path):
    document = changed("model.io.kv_inputs", [f"past_{i}" for i in LAYERS])
    document["model"]["io"]["kv_outputs"] = [f"present_{i}" for i in LAYERS]
    decoder = load_model_spec(folder(tmp_path, document)).decoder
    assert (decoder.inputs["past_names"], decoder.outputs["present_names"]) == ("past_%d", "present_%d")


def test_more_ends_from_the_generation_config(tmp_path):
    folder(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [5, 2]}')
    assert load_model_spec(tmp_path).tokens.eos == (2, 5)


def test_without_an_end_the_padding_ends(tmp_path):
    tokens = {"pad_token": {"content": "p", "id": 3}}
    spec = load_model_spec(folder(tmp_path, changed("package.tokenizer.special_tokens", tokens)))
    assert spec.tokens.eos == (3,)


def test_the_manifest_says_where_rope_switches(tmp_path):
    folder(tmp_path)
    (tmp_path / "onnxgen_build.json").write_text('{"rope_switch_length": 16}')
    assert load_model_spec(tmp_path).decoder.rope_switch_length == 16


def test_the_tokenizer_may_lie_in_a_folder(tmp_path):
    document = changed("package.tokenizer.artifacts", [{"location": "tok/tokenizer.json"}])
    assert load_model_spec(folder(tmp_path, document)).tokenizer_dir == tmp_path / "tok"


def test_the_tokenizer_lies_in_one_folder(tmp_path):
    files = [{"location": "tok/tokenizer.json"}, {"location": "vocab.json"}]
    with pytest.raises(MetadataError, match="they must lie in one"):
        load_model_spec(folder(tmp_path, changed("package.tokenizer.artifacts", files)))


def test_the_tokenizer_stays_in_the_folder(tmp_path):
    document = changed("package.tokenizer.artifacts", [{"location": "../tokenizer.json"}])
    with pytest.raises(MetadataError, match="leaves the model folder"):
        load_model_spec(folder(tmp_path, document))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("modle", {}, r"inference_metadata\.yaml: modle is unknown; did you mean 'model'"),
        ("model", None, "model is missing"),
        ("model.vocab_size", None, "model.vocab_size is missing; a decoder"),
        ("model.max_sequence_length", None, "model.max_sequence_length is missing"),
        ("model.vocab_size", 0, "model.vocab_size is 0; it must be at least 1"),
        ("model.io.kv_inputs", None, "model.io.kv_inputs is missing; it names the cache"),
        ("model.io.kv_outputs", None, "model.io.kv_outputs is missing"),
        ("model.io.kv_outputs", ["present.0.key", "present.0.value"], "names 1 layers, kv_inputs names 3"),
        ("model.io.kv_input", [], "model.io.kv_input is unknown; did you mean 'kv_inputs'"),
        ("model.io.kv_layout", "bhsd", "kv_layout is 'bhsd'; known are head_major_bnsh"),
        ("model.io.aliasing", "maybe", "aliasing is 'maybe'; known are permitted"),
        ("model.attention.type", None, "model.attention.type is missing"),
        ("generation.defaults.topk", 4, "generation.defaults.topk is unknown; did you mean 'top_k'"),
        ("generation.defaults.top_k", 1.5, "top_k must be a whole number"),
        ("schema_version", "v2", "schema_version is 'v2'; known are v1"),
        (
            "package.tokenizer.special_tokens",
            {"eos_token": {"id": 2}},
            r"special_tokens\.eos_token\.content is missing",
        ),
        ("required_capabilities", "kv_cache", "required_capabilities must be an array"),
    ],
)
def test_mistakes_are_named_with_their_path(tmp_path, path, value, message):
    with pytest.raises(MetadataError, match=message):
        load_model_spec(folder(tmp_path, changed(path, value)))


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("pipeline", {"workflow": {}}, "'pipeline'"),
        ("adapters", {}, "'adapters'"),
        ("speculative", {"proposer": "x"}, "'speculative'"),
        ("preprocessing", {}, "'preprocessing'"),
        ("profiles", {"asr": {"kind": "asr", "version": "1"}}, "profile 'asr'"),
        ("profiles", {"asr": {"kind": "asr", "version": "1", "requirement": "required"}}, "profile 'asr'"),
        ("generation.overrides", {"seed": {"input": "seed"}}, "'generation.overrides'"),
        ("model.sharding", {}, "'model.sharding'"),
        ("hardware_requirements.min_tp_degree", 2, "split over 2 devices"),
        ("model.io.inputs_embeds_input", "embeds", "'model.io.inputs_embeds_input'"),
        ("model.io.encoder_hidden_states_input", "x", "encoder_hidden_states_input"),
        ("model.io.audio_features_input", "x", "audio_features_input"),
        ("model.io.cross_kv_inputs", ["x.0"], "cross_kv_inputs"),
        ("model.io.state_pairs", [{}], "state_pairs"),
        ("model.io.static_cache", {"x": 1}, "static_cache"),
        ("model.io.optional_inputs", {"x": {}}, "optional_inputs"),
        ("model.io.sequence_source", "inputs_embeds", "sequence_source: inputs_embeds"),
        ("model.io.kv_layout", "seq_major_bsnh", "kv_layout: seq_major_bsnh"),
        ("model.io.kv_layout", {"strides": {}}, "kv_layout"),
        ("model.io.kv_ownership", "shared", "kv_ownership: shared"),
        ("model.io.aliasing", "forbidden", "aliasing: forbidden"),
        ("required_capabilities", ["session_state_lease"], "requires 'session_state_lease'"),
    ],
)
def test_what_we_cannot_do_is_named(tmp_path, path, value, named):
    with pytest.raises(CapabilityError, match=rf"inference_metadata\.yaml: .*{named}"):
        load_model_spec(folder(tmp_path, changed(path, value)))


def test_the_model_file_must_be_there(tmp_path):
    folder(tmp_path)
    (tmp_path / "model.onnx").unlink()
    with pytest.raises(ModelFileError, match=r"model\.onnx does not exist"):
        load_model_spec(tmp_path)
