"""What holds for all tests."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import platformdirs
import pytest

from repeatable_data import repeat


def pytest_configure(config: pytest.Config) -> None:
    # machine code is found by what it was compiled from: runs and their workers may share it
    cache: pytest.Cache | None = getattr(config, "cache", None)
    if cache is not None:
        os.environ.setdefault("ONNXGEN_KERNEL_CACHE", str(cache.mkdir("kernels")))
    if "PYTEST_XDIST_WORKER" in os.environ:
        _compile_here()
    # started in the background of a shell without job control, a process ignores interrupts, and so would
    # all that the tests start and interrupt
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _compile_here() -> None:
    """Compile kernels in the process of the tests.

    Others, one a core, would each begin with seconds of imports, while the other tests keep the cores busy anyway.
    """
    from onnxgen.graph.cpu.step.code_store import default_store

    store = default_store()
    store.prepare = partial(store.prepare, processes=0)


def pytest_collectstart(collector: pytest.Collector) -> None:
    repeat(collector.nodeid)  # modules may draw while they are imported


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    repeat(item.nodeid)


@pytest.fixture(autouse=True)
def _own_cache(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tests without real models leave the user's cache alone."""
    if "e2e" not in Path(request.path).parts:
        folder = tmp_path_factory.getbasetemp() / "cache"
        monkeypatch.setattr(platformdirs, "user_cache_dir", lambda *_, **__: str(folder))
