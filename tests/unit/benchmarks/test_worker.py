import sys

import numpy as np
import pytest
from benchmarks.peers.worker import Worker, WorkerError

from fake_peer import start_fake


def test_answers_are_those_of_the_program_whatever_it_prints():
    with start_fake() as worker:
        assert worker.versions == {"numpy": np.__version__}
        assert worker.ask("load", model="/some/model", threads=2)["load_s"] >= 0
        assert worker.ask("prefill", prompt=[1] * 50) == {"seconds": 0.5}
        assert worker.ask("decode", prompt=[1], new_tokens=21) == {"seconds": 1.0}
        assert worker.ask("streams", prompts=[[1], [2]], new_tokens=3) == {"decode_s": 2.0, "total_s": 4.0}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_that_of_the_worker():
    with start_fake() as worker:
        memory = worker.ask("memory")
        assert 1 < memory["rss_mb"] <= memory["peak_mb"] + 4


def test_a_failure_is_told_and_the_worker_goes_on():
    with start_fake() as worker:
        with pytest.raises(WorkerError, match="ValueError: no model at all"):
            worker.ask("load", model="broken", threads=1)
        worker.ask("load", model="whole", threads=1)
        assert worker.ask("prefill", prompt=[1])["seconds"] == 0.01


def test_an_end_is_told_with_the_last_words():
    with start_fake(streams="os.write(2, b'out of luck\\n'); os._exit(3)") as worker:
        worker.ask("load", model="m", threads=1)
        with pytest.raises(WorkerError, match="ended with 3; it said last: out of luck"):
            worker.ask("streams", prompts=[[1]], new_tokens=2)


def test_a_program_that_does_not_start_is_told():
    with pytest.raises(WorkerError, match="ended with 1; it said last: ModuleNotFoundError"):
        Worker([sys.executable, "-c", "import there_is_no_such_program"])
