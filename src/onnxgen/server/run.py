"""`serve`: an application on a socket, from the first connection to an end in good order."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
import threading
from collections.abc import Generator
from typing import Any

import uvicorn

from onnxgen.errors import ConfigError
from onnxgen.server.services import Services
from onnxgen.server.settings import ServerSettings

logger = logging.getLogger(__name__)

_BACKLOG = 2048
_LAST_WORDS_S = 5  # for streams to say why they end, after their models were closed


def listen(settings: ServerSettings) -> socket.socket:
    """The socket that the settings name, which clients can connect to from now on.

    Raises:
        ConfigError: The port is taken, or the address is not this machine's.
    """
    host, port = settings.host, settings.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except socket.gaierror as cause:
        raise ConfigError(f"--host {host}: {cause.strerror}; give an address of this machine") from cause
    except OSError as cause:
        reasons = {
            errno.EADDRINUSE: f"port {port} of {host} is taken by another program; choose another with --port "
            "(0 takes a free one), or end that program",
            errno.EACCES: f"port {port} needs rights that this user lacks; choose one above 1023 with --port",
            errno.EADDRNOTAVAIL: f"{host} is no address of this machine; 127.0.0.1 and 0.0.0.0 always work",
        }
        raise ConfigError(
            reasons.get(cause.errno or 0, f"cannot listen on {host}:{port}: {cause}")
        ) from cause


def address_of(listener: socket.socket) -> str:
    """Where clients find a server, as the beginning of an address."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(app: Any, services: Services, listener: socket.socket) -> None:
    """Serve until a signal comes, then end in good order.

    SIGTERM or the first SIGINT: no new connections; answers under way may take ``drain_s`` more seconds, then they end
    with an error that says why. A second SIGINT ends at once.

    Args:
        app: The application.
        services: What it shares.
        listener: From `listen`; closed at the end.
    """
    settings = services.settings
    config = uvicorn.Config(
        app,
        lifespan="on",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=settings.idle_timeout_s,
        limit_concurrency=settings.max_connections,
        timeout_graceful_shutdown=round(settings.drain_s + _LAST_WORDS_S),
    )
    _Server(config, services).run(sockets=[listener])


class _Server(uvicorn.Server):
    """A server that drains when it is told to end."""

    def __init__(self, config: uvicorn.Config, services: Services) -> None:
        super().__init__(config)
        self._services = services

    def handle_exit(self, sig: int, frame: Any) -> None:
        """End: in good order, or at once if somebody insists."""
        if self._services.draining and sig == signal.SIGINT:
            self.force_exit = True
        self._services.draining = self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Hear of signals while it runs. They are not raised again: an end in good order is a success."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {which: signal.signal(which, self.handle_exit) for which in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for which, handler in before.items():
                signal.signal(which, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, and wait for those that are there."""
        self._services.draining = True
        pending = asyncio.get_running_loop().create_task(self._end_answers())
        try:
            await super().shutdown(sockets)
        finally:
            pending.cancel()

    async def _end_answers(self) -> None:
        """End what takes too long; closed models say so in streams."""
        await asyncio.sleep(self._services.settings.drain_s)
        logger.warning(
            "ending %d connections that did not finish in time", len(self.server_state.connections)
        )
        await self._services.models.aclose()
