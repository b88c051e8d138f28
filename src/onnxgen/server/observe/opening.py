"""`open_observer`: an observer as settings want it; `counted`: a loader of models whose work is counted."""

from __future__ import annotations

import time
from collections.abc import Callable

from onnxgen.server.models.entry import ModelEntry
from onnxgen.server.models.loaded import LoadedModel
from onnxgen.server.models.residents import Loader
from onnxgen.server.observe.listener import RequestListener
from onnxgen.server.observe.metrics import Metrics
from onnxgen.server.observe.observer import Observer
from onnxgen.server.observe.request_log import RequestLog
from onnxgen.server.observe.tracing import open_span_sender
from onnxgen.server.settings import ServerSettings


def open_observer(settings: ServerSettings) -> Observer:
    """An observer that writes a line for each request, and sends traces where that is asked for.

    Raises:
        ConfigError: The packages that send traces are not installed.
    """
    listeners: list[RequestListener] = [RequestLog()]
    if settings.otel:
        listeners.append(open_span_sender())
    return Observer(listeners=listeners, statistics_s=settings.stats_interval_s)


def counted(load: Loader, metrics: Metrics, *, clock: Callable[[], float] = time.perf_counter) -> Loader:
    """A loader whose loads and failures are counted."""

    async def load_counted(entry: ModelEntry) -> LoadedModel:
        began = clock()
        try:
            model = await load(entry)
        except Exception:
            metrics.loaded(entry.id, seconds=None, ok=False)
            raise
        metrics.loaded(entry.id, seconds=clock() - began)
        return model

    return load_counted
