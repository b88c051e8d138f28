"""`/v1/embeddings`: texts to vectors."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from pydantic_core import to_json

from onnxgen.facade.embedder import Embeddings
from onnxgen.facade.prompts import Prompt, prompts_of
from onnxgen.server.errors import ApiError
from onnxgen.server.generation.answers import request_id_of, tenant_of
from onnxgen.server.generation.client_watch import asked_model, while_connected
from onnxgen.server.generation.counts import check_count
from onnxgen.server.generation.large_requests import read_request
from onnxgen.server.generation.outcomes import end_early
from onnxgen.server.generation.unknown_fields import log_unknown_fields
from onnxgen.server.json_bodies import JsonRoute
from onnxgen.server.schemas.embeddings import EmbeddingList, EmbeddingRequest
from onnxgen.server.services import Services, services_of

if TYPE_CHECKING:
    from onnxgen.server.models.table import LoadedModel

router = APIRouter(route_class=JsonRoute, tags=["embeddings"])


@router.post("/v1/embeddings", response_model=EmbeddingList, summary="Turn texts into vectors")
async def embeddings(request: Request, asked: EmbeddingRequest) -> Response:
    """Turn texts into vectors. Those of one request are computed together, and requests take turns.

    Token ids must be of the model's own tokenizer: clients that cut texts with another one have to be told not to.
    """
    services = services_of(request)
    log_unknown_fields(asked, services.unknown_fields)
    texts = await read_request(request, lambda: _texts_of(asked, services))
    async with asked_model(request, services, asked.model) as model:
        body = await _observed(request, services, model, asked, texts)
    return Response(body, media_type="application/json")


def _texts_of(asked: EmbeddingRequest, services: Services) -> list[str | list[int]]:
    texts, _ = prompts_of(asked.input, name="input")
    if not texts:
        raise ApiError(400, "input is empty; give at least one text", param="input")
    check_count("input", texts, services.settings.max_prompts)
    return texts


async def _observed(
    request: Request, services: Services, model: LoadedModel, asked: EmbeddingRequest, texts: Sequence[Prompt]
) -> bytes:
    """The body of the answer."""
    observed = services.observer.begin(
        request_id=request_id_of(request),
        endpoint="embeddings",
        model=model.id,
        stream=False,
        tenant=tenant_of(request),
    )
    stop = threading.Event()

    def work() -> tuple[bytes, int]:
        found = services.vectors.embed(
            model.vectors, texts, dimensions=asked.dimensions, truncate=bool(asked.truncate), stop=stop
        )
        return _body(found, model.id, asked), found.total_tokens

    job = services.vectors.threads.submit(work)
    working = asyncio.wrap_future(job)
    try:
        with while_connected(request.receive):
            await asyncio.wait((working,))
        body, num_tokens = working.result()
    except BaseException as error:
        end_early(observed, error)
        raise
    finally:
        stop.set()
        job.cancel()  # has it not begun, it does not; else it counts as under way to its end, and uses the model
        await asyncio.gather(working, return_exceptions=True)
    observed.usage(prompt_tokens=num_tokens)
    observed.end("ok", status=200)
    return body


def _body(found: Embeddings, model_id: str, asked: EmbeddingRequest) -> bytes:
    """The answer as JSON, vector by vector: no single step of it holds up other threads."""
    vectors = found.vectors.astype("<f4", copy=False)
    if asked.encoding_format == "base64":
        shown = (to_json(base64.b64encode(vector.tobytes()).decode("ascii")) for vector in vectors)
    else:
        shown = (to_json(vector.tolist()) for vector in vectors)
    data = b",".join(
        b'{"object":"embedding","index":%d,"embedding":%b}' % (index, vector)
        for index, vector in enumerate(shown)
    )
    usage = {"prompt_tokens": found.total_tokens, "total_tokens": found.total_tokens}
    return b'{"object":"list","data":[%b],"model":%b,"usage":%b}' % (data, to_json(model_id), to_json(usage))
