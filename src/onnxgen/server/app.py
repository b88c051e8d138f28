"""The application: routes, error answers, and the life of what they share."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

from fastapi import FastAPI

from onnxgen.server.error_answers import answer_errors
from onnxgen.server.openapi import document_errors, offer_document
from onnxgen.server.routes import ROUTERS
from onnxgen.server.services import Services
from onnxgen.version import __version__


def create_app(services: Services) -> FastAPI:
    """The application of a server, without protection.

    Args:
        services: What its routes share. The application starts and ends the models.
    """
    settings = services.settings

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        await services.models.start()
        services.observer.start(services.models, sessions=services.sessions)
        try:
            yield
        finally:
            services.vectors.close()
            await services.models.aclose()
            await services.observer.aclose()

    app = FastAPI(
        title="onnxgen",
        version=__version__,
        summary="Generative models in ONNX format, served as OpenAI's API does.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.state.services = services
    answer_errors(app)
    for router in ROUTERS:
        app.include_router(router)
    asks_for_keys = bool(settings.api_key or settings.admin_key or settings.api_key_file)
    document_errors(app, asks_for_keys=asks_for_keys, public_metrics=settings.public_metrics)
    if settings.enable_docs:
        offer_document(app)
    return app
