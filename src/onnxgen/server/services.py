"""`Services`: what the routes of one server share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from starlette.requests import HTTPConnection

from onnxgen.server.formats.response_store import ResponseStore
from onnxgen.server.settings import ServerSettings
from onnxgen.server.vector_work import VectorWork

if TYPE_CHECKING:
    from onnxgen.server.models.table import ModelTable
    from onnxgen.server.observe.observer import Observer
    from onnxgen.server.sessions.store import SessionStore


@dataclass(slots=True)
class Services:
    """What the routes of one server share.

    Attributes:
        settings: How it serves.
        models: What it serves.
        observer: Is told of every request.
        sessions: Conversations that the server keeps.
        vectors: Turns texts into vectors.
        responses: Responses that the server keeps.
        now: Seconds since 1970, for what clients are shown.
        started: When the server was made, in seconds since 1970.
        unknown_fields: Fields of requests that mean nothing here, as far as they were named in the log.
        draining: It ends as soon as what it does is done, and takes nothing new.
    """

    settings: ServerSettings
    models: ModelTable
    observer: Observer
    sessions: SessionStore
    vectors: VectorWork = field(default_factory=VectorWork)
    now: Callable[[], float] = time.time
    started: float = field(default_factory=time.time)
    unknown_fields: set[str] = field(default_factory=set[str])
    draining: bool = False
    responses: ResponseStore = field(init=False)

    def __post_init__(self) -> None:
        """Make what the settings say the size of."""
        self.responses = ResponseStore(max_responses=self.settings.max_stored_responses)


def services_of(connection: HTTPConnection) -> Services:
    """The services of the server that a request came to."""
    return cast(Services, connection.app.state.services)
