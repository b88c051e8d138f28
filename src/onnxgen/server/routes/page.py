"""The chat page at `/`, the page of the API at `/docs`, and their files at `/page/`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from onnxgen.server.errors import ApiError
from onnxgen.server.page.files import PAGE_HEADERS, page_files
from onnxgen.server.services import services_of
from onnxgen.server.settings import ServerSettings

router = APIRouter(include_in_schema=False)

_SHARED = frozenset({"icon.svg", "palette.css"})


@router.api_route("/", methods=["GET", "HEAD"])
async def page(request: Request) -> Response:
    """The chat page."""
    return _file(request, "index.html")


@router.api_route("/docs", methods=["GET", "HEAD"])
async def docs(request: Request) -> Response:
    """The page of the API."""
    return _file(request, "docs.html")


@router.api_route("/page/{name}", methods=["GET", "HEAD"])
async def asset(request: Request, name: str) -> Response:
    """A file of the pages."""
    return _file(request, name)


def _file(request: Request, name: str) -> Response:
    file = page_files().get(name) if _is_offered(name, services_of(request).settings) else None
    if file is None:
        raise ApiError(404, f"there is nothing at {request.url.path[:200]!r}", code="not_found")
    headers = {**PAGE_HEADERS, "ETag": file.etag}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


def _is_offered(name: str, settings: ServerSettings) -> bool:
    if name in _SHARED:
        return settings.enable_page or settings.enable_docs
    return settings.enable_docs if name.startswith("docs") else settings.enable_page
