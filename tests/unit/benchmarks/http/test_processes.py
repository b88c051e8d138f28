import os
import sys
import time

import pytest
from benchmarks.http import processes
from benchmarks.http.processes import ServerError, ServerProcess, cpu_seconds, free_port, process_tree, rss_mb

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are watched through /proc")

SERVE = """
import http.server, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def _serving():
    port = free_port()
    return ServerProcess([sys.executable, "-c", SERVE, str(port)], f"http://127.0.0.1:{port}/health")


def test_a_server_is_watched_and_ended_with_its_children():
    with _serving() as server:
        pids = server.pids
        assert len(pids) == 2 and server.start_s > 0
        assert rss_mb(pids) > rss_mb(pids[:1]) > 1
        assert cpu_seconds(pids) > 0
    deadline = time.monotonic() + 10
    while any(_runs(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(_runs(pid) for pid in pids)


def _runs(pid):
    try:
        return processes._stat(pid)[0] != "Z"
    except OSError:
        return False


def test_a_server_that_ends_is_told_with_its_last_words():
    with pytest.raises(ServerError, match=r"ended with 3; it said last:\nno such model"):
        ServerProcess(
            [sys.executable, "-c", "import sys; print('no such model'); sys.exit(3)"],
            "http://127.0.0.1:9/health",
        )


def test_a_server_that_never_answers_is_given_up(monkeypatch):
    monkeypatch.setattr(processes, "_START_S", 0.3)
    with pytest.raises(ServerError, match=r"did not say 200 within 0\.3 s"):
        ServerProcess(
            [sys.executable, "-c", "import time; time.sleep(60)"], f"http://127.0.0.1:{free_port()}/health"
        )


def test_processes_that_are_gone_count_nothing():
    assert rss_mb([2**22 + 5]) == 0.0 == cpu_seconds([2**22 + 5])
    assert os.getpid() in process_tree(os.getpid())
