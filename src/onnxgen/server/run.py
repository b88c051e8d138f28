"""`serve`: an application on a socket, from the first connection to an end in good order."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
import threading
from collections.abc import Callable, Generator
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from onnxgen.errors import BackendError, ConfigError, OnnxgenError
from onnxgen.server.app import create_app
from onnxgen.server.errors import ApiError
from onnxgen.server.introduction import introduce
from onnxgen.server.protection import protect
from onnxgen.server.protection.http_protocol import ConnectionLimits, guarded_http_protocol
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


def protected_app(services: Services) -> ASGIApp:
    """The application behind what protects it.

    Raises:
        ConfigError: A key is malformed, or the file of keys cannot be read.
    """
    return protect(create_app(services), services)


def server_config(services: Services) -> uvicorn.Config:
    """How uvicorn serves the application.

    Raises:
        ConfigError: See `protected_app`.
    """
    settings = services.settings
    return uvicorn.Config(
        protected_app(services),
        http=guarded_http_protocol(ConnectionLimits(max_connections=settings.max_connections)),
        lifespan="on",
        ws="none",
        proxy_headers=False,  # else anybody on this machine says who asks
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=settings.idle_timeout_s,
        timeout_graceful_shutdown=round(settings.drain_s + _LAST_WORDS_S),
    )


def serve(services: Services, listener: socket.socket, *, say: Callable[[str], None]) -> None:
    """Serve until a signal comes, then end in good order.

    SIGTERM or the first SIGINT: no new connections; answers under way may take ``drain_s`` more seconds, then they end
    with an error that says why. A second SIGINT ends at once.

    Args:
        services: What the application shares.
        listener: From `listen`; closed at the end.
        say: Tells whoever started the server a line.

    Raises:
        BackendError: No model could be loaded.
        ConfigError: See `protected_app`.
    """
    server = _Server(server_config(services), services, say)
    server.run(sockets=[listener])
    if server.failure is not None:
        raise BackendError(server.failure)


class _Server(uvicorn.Server):
    """A server that says what it has when that is there, and drains when it is told to end.

    Attributes:
        failure: Why it ended by itself; None if it did not.
    """

    def __init__(self, config: uvicorn.Config, services: Services, say: Callable[[str], None]) -> None:
        super().__init__(config)
        self._services, self._say = services, say
        self._introducing: asyncio.Task[None] | None = None
        self.failure: str | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say what there is as soon as it was loaded."""
        await super().startup(sockets)
        for listener in sockets or ():
            self._say(f"listening on {address_of(listener)}")
        self._introducing = asyncio.get_running_loop().create_task(self._introduce())

    async def _introduce(self) -> None:
        models = self._services.models
        try:
            await models.preloaded()
        except ApiError as error:
            self.failure, self.should_exit = error.message, True
            return
        for model in models.loaded():
            with contextlib.suppress(OnnxgenError):  # its engine died just now, which the log says
                for line in await introduce(model):
                    self._say(line)

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
        drain_s = self._services.settings.drain_s
        self._say(f"ending; what is under way may take {drain_s:g} s more, Ctrl-C again ends at once")
        if self._introducing is not None:
            self._introducing.cancel()
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
