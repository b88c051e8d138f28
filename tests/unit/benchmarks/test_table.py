from benchmarks.peers.table import document, model_table

MEDIANS = {
    "onnxgen": {"load_s": 0.2, "rss_load_mb": 150.0, "decode.128": 300.0, "prefill.512": 90.0},
    "other": {"load_s": 0.4, "rss_load_mb": 100.0, "decode.128": 100.0, "prefill.512": 100.0},
    "third": {"load_s": 0.8, "decode.128": 120.5},
}
BOUNDS = {"decode.128": 400.0, "prefill.512": 1000.0, "streams.4": 5.0}


def _rows(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_the_table_has_ratios_to_the_best_peer_and_shares_of_the_bound():
    rows = _rows(model_table(MEDIANS, BOUNDS, ours="onnxgen", peers=["other", "third"]))
    assert rows == [
        ["", "load s", "RSS after load, MB", "prefill 512", "decode @128"],
        ["---", "--:", "--:", "--:", "--:"],
        ["onnxgen", "0.20", "150", "90.0", "300"],
        ["other", "**0.40**", "**100**", "**100**", "100"],
        ["third", "0.80", "-", "-", "**120**"],
        ["onnxgen / best peer", "0.50", "1.50", "0.90", "2.49"],
        ["bound", "-", "-", "1000", "400"],
        ["onnxgen, share of the bound", "-", "-", "9%", "75%"],
        ["best peer, share of the bound", "-", "-", "10%", "30%"],
    ]


def test_without_peers_or_bounds_their_rows_are_absent():
    rows = _rows(model_table({"onnxgen": {"decode.128": 3.0}}, {}, ours="onnxgen", peers=["other"]))
    assert rows == [["", "decode @128"], ["---", "--:"], ["onnxgen", "3.0"]]


def test_without_ours_peers_are_still_compared_with_the_bound():
    only_peers = {"other": MEDIANS["other"]}
    labels = [row[0] for row in _rows(model_table(only_peers, BOUNDS, ours="onnxgen", peers=["other"]))]
    assert labels == ["", "---", "other", "bound", "best peer, share of the bound"]


def _page(noise):
    machine = {"bytes_per_s": 34.2e9, "byte_operations_per_s": 9e11, "float_operations_per_s": 2e11}
    conditions = {
        "date": "2030-01-02",
        "machine": "some machine",
        "threads": 2,
        "rounds": 3,
        "new_tokens": 64,
        "command": "python --models /home/somebody/models",
        "bounds": machine,
        "versions_of": {"other": {"package": "1.2"}},
    }
    return document({"small": "| table |"}, conditions, noise=noise)


def test_the_page_says_under_which_conditions():
    page = _page(0.02)
    assert page.startswith("# onnxgen beside other programs\n\n")
    for fact in (
        "2030-01-02, some machine, 2 threads",
        "34.2 GB/s",
        "900 G",
        "other: package 1.2",
        "0.02 CPUs\n",
    ):
        assert fact in page
    assert "## small\n\n| table |\n" in page
    assert "/home" not in page


def test_the_page_says_that_it_was_noisy():
    assert "0.50 CPUs, which is more than the 0.08 that a fair figure allows" in _page(0.5)
