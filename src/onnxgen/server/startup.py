"""`open_services`: what the routes of a server share, made from its settings before anything is loaded."""

from __future__ import annotations

from onnxgen.foundations.progress import SILENT, Progress
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.server.models.from_settings import open_table
from onnxgen.server.observe.opening import counted, open_observer
from onnxgen.server.services import Services
from onnxgen.server.sessions.session import SessionLimits
from onnxgen.server.sessions.store import SessionStore
from onnxgen.server.settings import ServerSettings


def open_services(
    settings: ServerSettings, runtime: RuntimeConfig, *, progress: Progress = SILENT
) -> Services:
    """What the routes of a server share.

    Args:
        settings: How it serves.
        runtime: How models are run.
        progress: Shows what takes time while models are loaded.

    Raises:
        ConfigError: There is no model to serve, what is said of one is wrong, or packages for traces are missing.
    """
    observer = open_observer(settings)
    return Services(
        settings=settings,
        models=open_table(
            settings, runtime, progress=progress, watched=lambda load: counted(load, observer.metrics)
        ),
        observer=observer,
        sessions=SessionStore(SessionLimits.of(settings)),
    )
