"""Heads that a folder declares, as `HeadSpec`."""

import json
import logging

import pytest

from onnxgen.backends.base import ProviderSpec
from onnxgen.errors import CapabilityError, MetadataError
from onnxgen.metadata.load import load_model_spec

MODEL = {
    "type": "llama",
    "vocab_size": 20,
    "context_length": 64,
    "decoder": {
        "filename": "model.onnx",
        "num_hidden_layers": 2,
        "session_options": {"intra_op_num_threads": 3, "provider_options": [{"CUDA": {"device_id": "1"}}]},
        "run_options": {"a": "b"},
        "inputs": {"attention_mask": "mask"},
        "outputs": {"hidden_states": "states"},
    },
}
EAGLE = {"filename": "eagle.onnx"}


def load(tmp_path, files=None, **sections):
    folder = tmp_path / "modèle"
    folder.mkdir(exist_ok=True)
    for name in ("model.onnx", *(files or ())):
        content = (files or {}).get(name, "a graph")
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    (folder / "genai_config.json").write_text(json.dumps({"model": {**MODEL, **sections}}))
    return load_model_spec(folder)


def test_a_folder_without_sections_has_no_head(tmp_path):
    assert load(tmp_path).head is None


def test_an_mtp_head_is_read_with_the_documented_defaults(tmp_path):
    spec = load(tmp_path, mtp={"filename": "mtp.onnx"})
    head = spec.head
    assert head is not None
    assert (head.name, head.target_outputs, head.reads_aux) == ("mtp", ("hidden_states",), False)
    assert (head.target_ids, head.max_draft_tokens) == (None, None)
    graph = head.decoder
    assert graph.path == spec.folder / "mtp.onnx"
    assert graph.inputs["hidden_states"] == "hidden_states"
    assert graph.inputs["past_key_names"] == "past_key_values.%d.key"
    assert graph.outputs["hidden_states"] == "hidden_states_out"
    assert (graph.num_layers, graph.vocab_size, graph.num_ids, graph.context_length) == (1, 20, 20, 64)
    # what the section leaves open is as the decoder has it
    assert graph.session_options == spec.decoder.session_options
    assert graph.providers == spec.decoder.providers == (ProviderSpec("cuda", {"device_id": "1"}),)
    assert graph.run_options == {"a": "b"}


def test_an_mtp_head_may_have_names_and_options_of_its_own(tmp_path):
    head = load(
        tmp_path,
        mtp={
            "filename": "sub/mtp.onnx",
            "num_hidden_layers": 2,
            "main_hidden_states": "main_hidden",
            "session_options": {"intra_op_num_threads": 1},
            "run_options": {},
            "inputs": {"input_ids": "ids", "hidden_states": "h", "attention_mask": ""},
            "outputs": {"logits": "scores", "hidden_states": "feedback"},
        },
    ).head
    assert head is not None
    assert head.target_outputs == ("main_hidden",)
    assert {"input_ids": "ids", "hidden_states": "h"}.items() <= head.decoder.inputs.items()
    assert "attention_mask" not in head.decoder.inputs
    assert (head.decoder.outputs["logits"], head.decoder.outputs["hidden_states"]) == ("scores", "feedback")
    assert (head.decoder.num_layers, head.decoder.providers, head.decoder.run_options) == (2, (), {})
    assert head.decoder.session_options["intra_op_num_threads"] == 1


def test_the_target_gives_what_the_head_reads(tmp_path):
    spec = load(tmp_path, eagle={**EAGLE, "main_hidden_states": ["low", "mid", "high"]})
    assert spec.head is not None
    target = spec.head.target(spec.decoder)
    assert target.hidden_outputs == ("low", "mid", "high")
    assert spec.decoder.hidden_outputs == ()


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ({}, "names no file"),
        (
            {"filename": "m.onnx", "shared_initializers": [{"name": "w", "data_file": "d"}]},
            "shared_initializers",
        ),
    ],
)
def test_an_mtp_head_that_cannot_be_used_is_left_aside_with_a_warning(tmp_path, section, why, caplog):
    with caplog.at_level(logging.WARNING):
        assert load(tmp_path, mtp=section).head is None
    assert why in caplog.text


def test_a_head_that_is_switched_off_is_none(tmp_path):
    assert load(tmp_path, mtp={"filename": "m.onnx", "enabled": False}).head is None
    both = load(tmp_path, mtp={"filename": "m.onnx", "enabled": False}, eagle=EAGLE)
    assert both.head is not None
    assert both.head.name == "eagle"


def test_two_heads_are_one_too_many(tmp_path):
    with pytest.raises(MetadataError, match=r"model has mtp and eagle; keep one of them"):
        load(tmp_path, mtp={"filename": "m.onnx"}, eagle=EAGLE)


def test_an_eagle_head_has_a_vocabulary_of_its_own(tmp_path):
    ids = [3, 0, 19, 7]
    section = {
        **EAGLE,
        "vocab_size": 4,
        "vocab_map": "map.json",
        "num_draft_tokens": 5,
        "inputs": {"aux_hidden_states": "features"},
    }
    head = load(tmp_path, files={"map.json": ids}, eagle=section).head
    assert head is not None
    assert (head.target_ids, head.max_draft_tokens, head.reads_aux) == (tuple(ids), 5, True)
    assert (head.decoder.vocab_size, head.decoder.input_vocab_size) == (4, 20)
    assert head.decoder.inputs["aux_hidden_states"] == "features"


def test_a_smaller_vocabulary_without_a_map_is_the_first_ids(tmp_path):
    head = load(tmp_path, eagle={**EAGLE, "vocab_size": 4}).head
    assert head is not None
    assert (head.decoder.vocab_size, head.decoder.num_ids, head.target_ids) == (4, 20, None)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, 2], r"map\.json has 2 token ids; the head has 3 logits"),
        ([1, 2, 1], r"map\.json has the token id 1 more than once"),
        ([1, 2, 20], r"map\.json: \[2\] is 20; the model's token ids are 0 to 19"),
        ([1, 2, -1], r"map\.json: \[2\] is -1"),
        ([1, 2, 0.5], r"map\.json: \[2\] must be a whole number"),
        ({"0": 1}, r"map\.json: the document must be an array, found an object"),
        ("[1, 2,", r"map\.json is not valid JSON"),
    ],
)
def test_a_map_that_does_not_fit_is_refused(tmp_path, ids, message):
    section = {**EAGLE, "vocab_size": 3, "vocab_map": "map.json"}
    with pytest.raises(MetadataError, match=message):
        load(tmp_path, files={"map.json": ids}, eagle=section)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({}, r"model\.eagle\.filename is not set"),
        ({"filename": "../e.onnx"}, r"model\.eagle\.filename: file name"),
        ({**EAGLE, "vocab_size": 21}, r"model\.eagle\.vocab_size is 21; the model has 20 tokens"),
        ({**EAGLE, "vocab_map": "map.json"}, r"model\.eagle\.vocab_size is missing"),
        ({**EAGLE, "vocab_size": 3, "vocab_map": "../m"}, r"model\.eagle\.vocab_map: file name"),
        ({**EAGLE, "main_hidden_states": []}, r"model\.eagle\.main_hidden_states must name outputs"),
        ({**EAGLE, "main_hidden_states": "h"}, r"model\.eagle\.main_hidden_states must be an array"),
        ({**EAGLE, "inputs": {"hidden_states": ""}}, r"model\.eagle\.inputs\.hidden_states is empty"),
        ({**EAGLE, "outputs": {"hidden_state": "h"}}, r"hidden_state is unknown.*hidden_states"),
        ({**EAGLE, "num_draft_tokens": 0}, r"num_draft_tokens is 0; it must be at least 1"),
    ],
)
def test_a_section_that_is_wrong_is_named_with_its_place(tmp_path, section, message):
    with pytest.raises(MetadataError, match=message):
        load(tmp_path, eagle=section)


def test_a_map_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(MetadataError, match=r"map\.json"):
        load(tmp_path, eagle={**EAGLE, "vocab_size": 3, "vocab_map": "map.json"})


def test_devices_of_a_head_are_as_those_of_decoders(tmp_path):
    options = {"provider_options": [{"X": {"device_filtering_options": {"hardware_device_type": "npu"}}}]}
    with pytest.raises(CapabilityError, match="device_filtering_options of provider 'X'"):
        load(tmp_path, mtp={"filename": "m.onnx", "session_options": options})


def test_other_providers_are_the_heads_too(tmp_path):
    load(tmp_path, mtp={"filename": "m.onnx"})
    own = (ProviderSpec("WebGPU"),)
    spec = load_model_spec(tmp_path / "modèle", providers=own)
    assert spec.head is not None
    assert spec.decoder.providers == spec.head.decoder.providers == own
