import json

import onnx
import pytest

import tiny_model_folder
import tiny_tokenizer
from onnxgen.backends.profile import KernelTime, StepProfile
from onnxgen.cli import bench_run
from onnxgen.cli.bench_roof import measure_roof
from onnxgen.foundations import memory_bandwidth
from onnxgen.foundations.cpuinfo import detect_cpu
from onnxgen.graph.cpu import peaks
from tiny_decoders import Sizes, Style, TinyDecoder, write_graph

CONTEXT = 160
FEW = ("--prefill", "7,20", "--decode", "5", "--streams", "2", "--new-tokens", "3", "--repeats", "2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model folder with a graph that runs."""
    folder = tiny_model_folder.write_model_folder(tmp_path_factory.mktemp("bench") / "tiny", context=CONTEXT)
    sizes = Sizes(vocab=tiny_tokenizer.VOCAB_SIZE, context=CONTEXT)
    onnx.save(write_graph(TinyDecoder(sizes, seed=1), Style()), folder / "model.onnx")
    return folder


@pytest.fixture
def bench(onnxgen, folder):
    """Call the command on the tiny model."""
    return lambda *arguments: onnxgen("bench", folder, "--backend", "ort", "--threads", "1", *arguments)


def test_json_has_exactly_the_promised_keys(bench, folder):
    result = bench(*FEW, "--against", "ort", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert set(found) - {"rss_load_mb", "rss_peak_mb"} == {
        *("model", "backend", "load_s", "prefill", "decode", "streams", "ratio"),
    }
    assert (found["model"], found["backend"]) == (str(folder), "ort")
    assert set(found["prefill"]) == {"7", "20"}
    assert set(found["decode"]) == {"5"}
    assert {key: set(value) for key, value in found["streams"].items()} == {
        "2": {"decode_tok_s", "e2e_tok_s"}
    }
    assert set(found["ratio"]) == {
        *("prefill.7", "prefill.20", "decode.5", "streams.2.decode_tok_s", "streams.2.e2e_tok_s"),
    }
    assert min(*found["prefill"].values(), *found["decode"].values(), *found["ratio"].values()) > 0
    assert result.stdout.count("\n") == 1


def test_what_was_not_measured_is_absent(bench):
    found = json.loads(bench("--prefill", "8", "--decode", "", "--streams", "", "--json").stdout)
    assert not {"decode", "streams", "ratio", "overhead_share"} & set(found)
    text = bench("--prefill", "", "--decode", "", "--streams", "2", "--new-tokens", "2").stdout
    assert "where the time goes" not in text


def test_text_has_rates_bounds_and_ratios(bench):
    result = bench(*FEW, "--against", "ort")
    assert result.exit_code == 0, result.stderr
    assert "backend ort, 1 thread\n" in result.stdout
    for label in ("prefill 7", "prefill 20", "decode at 5", "2 streams, decode", "2 streams, end to end"):
        assert label in result.stdout
    assert "of the bound" in result.stdout and "x ort's tok/s" in result.stdout
    assert "float32 operations/s" in result.stdout
    assert "backend ort does not say where the time goes" in result.stdout


def test_the_bound_is_of_the_threads_that_the_processor_has(folder, monkeypatch):
    asked = []
    monkeypatch.setattr(memory_bandwidth, "measure_read_bandwidth", lambda n: asked.append(n) or 1e9)
    monkeypatch.setattr(peaks, "measure_float_peak", lambda n: asked.append(n) or 1e9)
    assert measure_roof(folder / "model.onnx", tiny_tokenizer.VOCAB_SIZE, threads=10**6) is not None
    assert asked == [detect_cpu().logical_cores] * 2


def test_defaults_that_do_not_fit_are_left_out(bench):
    result = bench("--decode", "", "--streams", "", "--repeats", "1", "--json")
    assert set(json.loads(result.stdout)["prefill"]) == {"128"}
    assert f"--prefill 512 takes 513 tokens of context; the model has {CONTEXT}; left out" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--prefill", "8,x"), "--prefill '8,x' is no list of whole numbers"),
        (("--decode", "0"), "--decode '0' is no list of whole numbers"),
        (("--streams", "2,,3"), "--streams '2,,3' is no list"),
        (("--decode", "4,4"), "has a number twice"),
        (("--prefill", "500"), f"--prefill 500 takes 501 tokens of context; the model has {CONTEXT}"),
        (("--streams", "2", "--new-tokens", "40"), "--streams 2 takes 168 tokens"),
        (("--against", "ortt", "--prefill", "4"), "backend 'ortt' is not available"),
        (("--new-tokens", "1"), "--new-tokens"),
    ],
)
def test_wrong_options_say_what_is_wrong(bench, arguments, message):
    result = bench(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_profile_becomes_a_table_and_a_share(bench, monkeypatch):
    """A backend that offers a profile is asked for one of a prompt, and one of decode steps only."""
    load, lengths = bench_run.load_backend, []

    def load_profiled(*arguments):
        backend = load(*arguments)

        def profile(run):
            execute = backend.execute
            backend.execute = lambda step, cache: lengths.append(step.num_tokens) or execute(step, cache)
            run()
            backend.execute = execute
            return StepProfile(2, 2.0, (KernelTime("product", 30, 1.25), KernelTime("norm", 4, 0.25)))

        backend.profile = profile
        return backend

    monkeypatch.setattr(bench_run, "load_backend", load_profiled)
    assert json.loads(bench(*FEW, "--json").stdout)["overhead_share"] == 0.25
    assert lengths == [1, 7, 1, 1, 1]  # a small one before each
    text = bench(*FEW).stdout
    assert "time of decode steps  calls  ms       share" in text
    assert "product               30     1250.00  62.5%" in text
    assert "outside kernels              500.00   25.0%" in text
