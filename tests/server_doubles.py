"""Servers on scripted models, for tests: `fake_services`, `client` for plain requests, `running` for real sockets."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.config import EngineConfig
from onnxgen.facade.async_llm import AsyncLLM
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.server.app import create_app
from onnxgen.server.models import LoadedModel, ModelEntry, ModelTable
from onnxgen.server.observe.observer import Observer
from onnxgen.server.services import Services
from onnxgen.server.sessions.store import SessionStore
from onnxgen.server.settings import ServerSettings
from tiny_model_folder import fake_backend, with_template, write_model_folder

TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"


def table_of(llm: AsyncLLM, entry: ModelEntry) -> ModelTable:
    """A table of one model, which is there from the beginning."""

    async def load(entry: ModelEntry) -> LoadedModel:
        return LoadedModel(entry, llm=llm, adapters=tuple(entry.adapters))

    return ModelTable([entry], load=load)


def fake_services(
    folder: Path,
    *,
    backend: FakeBackend | None = None,
    id: str = "tiny",
    template: str = TEMPLATE,
    context: int = 1024,
    engine: EngineConfig | None = None,
    entry: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
) -> Services:
    """The services of a server of one scripted model.

    Args:
        folder: Where the model folder is written.
        backend: The script; None: answers that a hash of the prompt decides.
        id: What clients call the model.
        template: Its chat template.
        context: Its context, in tokens.
        engine: How its engine is configured.
        entry: Further fields of its `ModelEntry`.
        settings: Fields of `ServerSettings`.
    """
    with_template(write_model_folder(folder / "model", context=context), template)
    backend = backend or fake_backend(block_size=16, max_context=context)
    runtime = RuntimeConfig(cache_dir=folder / "cache")
    llm = AsyncLLM(folder / "model", config=runtime, backend=backend, engine=engine)
    return Services(
        settings=ServerSettings(**(settings or {})),
        models=table_of(llm, ModelEntry(id, str(folder / "model"), **{"warm_up": False, **(entry or {})})),
        observer=Observer(statistics_s=0),
        sessions=SessionStore(),
    )


@contextlib.asynccontextmanager
async def client(app: Any, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application without sockets; answers come whole, so streams are for `running`."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://127.0.0.1", timeout=30, **options
    ) as c:
        yield c


@contextlib.contextmanager
def running(app: Any, **options: Any) -> Iterator[str]:
    """The base URL of an application on a real port, in a thread."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        server = uvicorn.Server(uvicorn.Config(app, lifespan="on", log_config=None, **options))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            thread.join(0.01)
            assert thread.is_alive(), "the server did not start"
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive(), "the server does not end"


def server(*args: Any, **options: Any) -> Any:
    """The application of `fake_services` with these arguments."""
    return create_app(fake_services(*args, **options))
