"""Clients that leave: whatever waits for their sake ends, before an answer begins as well as during it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from onnxgen.server.errors import ApiError, ending
from onnxgen.server.generation.interruption import Interruption
from onnxgen.server.services import Services

if TYPE_CHECKING:
    from onnxgen.server.models.table import LoadedModel

Receive = Callable[[], Awaitable[Any]]

CLIENT_LEFT = 499
"""The status of requests whose client left; nobody sees it but logs and metrics."""


class ClientLeftError(ApiError):
    """The client closed the connection before its answer was complete."""

    def __init__(self) -> None:
        super().__init__(CLIENT_LEFT, "the client left", code="client_left")


async def interrupt_when_left(receive: Receive, interruption: Interruption) -> None:
    """Interrupt when a client leaves.

    Args:
        receive: The channel of its request, whose body was read.
        interruption: What ends then, with `ClientLeftError`.
    """
    while (await receive())["type"] != "http.disconnect":
        pass
    interruption.interrupt(ClientLeftError())


@contextlib.contextmanager
def while_connected(receive: Receive) -> Generator[None]:
    """A block that ends when a client leaves.

    Args:
        receive: The channel of its request, whose body was read.

    Raises:
        ClientLeftError: It left.
    """
    interruption = Interruption()
    watch = asyncio.create_task(interrupt_when_left(receive, interruption))
    try:
        with interruption:
            yield
    finally:
        watch.cancel()


@contextlib.asynccontextmanager
async def asked_model(http: Request, services: Services, name: str | None) -> AsyncGenerator[LoadedModel]:
    """The model that a request asks for, as `ModelTable.use` gives it; nobody waits for one whose client left.

    Args:
        http: The request, whose body was read.
        services: Of the server.
        name: Of the model.

    Raises:
        ApiError: As `ModelTable.use`; or the server ends.
        ClientLeftError: The client left before the model was there.
    """
    if services.draining:
        raise ending()
    async with contextlib.AsyncExitStack() as stack:
        with while_connected(http.receive):
            model = await stack.enter_async_context(services.models.use(name))
        yield model
