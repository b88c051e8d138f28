"""The chat page with a server whose answers are written down, so that a test decides each piece and each failure."""

import asyncio
import json
import types

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

from onnxgen.server.errors import ApiError
from onnxgen.server.routes import page
from onnxgen.server.settings import ServerSettings


class ScriptedChat:
    """Answers by script. `script` has, for the next questions, what each is answered with.

    An answer is a list of deltas (a text is one of content), of exceptions (raised there), and of seconds to wait; or
    an `ApiError` alone, for a refusal.
    """

    def __init__(self, *script, key=None, models=("tiny", "other/model")):
        self.script, self.key, self.models = list(script), key, list(models)
        self.asked = []
        self.left_early = 0
        self.health = (200, {"status": "ok"})
        self.app = FastAPI()
        self.app.include_router(page.router)
        self.app.state.services = types.SimpleNamespace(settings=ServerSettings())
        self.app.add_exception_handler(
            ApiError, lambda _, e: JSONResponse(e.body, e.status, headers=dict(e.headers))
        )
        self.app.get("/health")(self.tell_health)
        self.app.get("/v1/models")(self.list_models)
        self.app.post("/v1/chat/completions")(self.answer)

    async def tell_health(self):
        status, body = self.health
        return JSONResponse(body, status)

    async def list_models(self, request: Request):
        self.check_key(request)
        return {"object": "list", "data": [{"id": id, "object": "model"} for id in self.models]}

    async def answer(self, request: Request):
        self.check_key(request)
        self.asked.append(await request.json())
        answer = self.script.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return StreamingResponse(self.events(answer), media_type="text/event-stream")

    def check_key(self, request):
        if self.key and request.headers.get("authorization") != f"Bearer {self.key}":
            raise ApiError(401, "this server needs an API key", code="invalid_api_key")

    async def events(self, answer):
        try:
            yield ": a comment\n\n"
            yield event(choices=[{"index": 0, "delta": {"role": "assistant"}}])
            for piece in answer:
                if isinstance(piece, int | float):
                    await asyncio.sleep(piece)
                elif isinstance(piece, ApiError):
                    yield f"data: {json.dumps(piece.body)}\n\n"
                    return
                elif isinstance(piece, EOFError):
                    return
                else:
                    delta = {"content": piece} if isinstance(piece, str) else piece
                    yield event(choices=[{"index": 0, "delta": delta, "finish_reason": None}])
            yield event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
            usage = {
                "prompt_tokens": 41,
                "completion_tokens": 17,
                "prompt_tokens_details": {"cached_tokens": 32},
            }
            yield event(choices=[], usage=usage, timings={"predicted_per_second": 23.45})
            yield "data: [DONE]\n\n"
        except asyncio.CancelledError:
            self.left_early += 1
            raise


def event(**fields):
    """A piece of a stream."""
    return f"data: {json.dumps({'object': 'chat.completion.chunk', **fields})}\n\n"
