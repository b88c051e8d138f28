"""Requests made from our own OpenAPI document, valid and invalid: none fails in the server, all answers are as documented."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys

import pytest

from onnxgen.facade.async_llm import AsyncLLM
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.server.models import LoadedModel, ModelEntry, ModelTable
from onnxgen.server.observe.observer import Observer
from onnxgen.server.protection.http_protocol import ConnectionLimits, guarded_http_protocol
from onnxgen.server.run import protected_app
from onnxgen.server.services import Services
from onnxgen.server.sessions.store import SessionStore
from onnxgen.server.settings import ServerSettings
from server_doubles import TEMPLATE, running
from tiny_model_folder import fake_backend, with_template, write_model_folder

pytest.importorskip("schemathesis", reason="schemathesis is not installed")

# Not: whether all requests that fit the schema are taken. Much cannot be said in a schema: that an id is known, or
# which fields exclude each other.
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "unsupported_method",
    "missing_required_header",
]

# Requests for models that are not there end early.
HOOKS = """
import schemathesis


@schemathesis.hook
def map_body(context, body):
    if isinstance(body, dict) and isinstance(body.get("model"), str):
        body["model"] = "tiny"
    return body


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    if path_parameters and "model_id" in path_parameters:
        path_parameters["model_id"] = "tiny"
    return path_parameters
"""


def services_of_a_model(folder):
    """Unlike the doubles' it can be unloaded and loaded again, which is among what is asked for."""
    entry = ModelEntry(
        "tiny", str(with_template(write_model_folder(folder / "model", context=1024), TEMPLATE))
    )

    async def load(entry):
        runtime = RuntimeConfig(cache_dir=folder / "cache")
        backend = fake_backend(block_size=16, max_context=1024)
        llm = await asyncio.to_thread(AsyncLLM, entry.source, config=runtime, backend=backend)
        return LoadedModel(entry, llm=llm)

    settings = ServerSettings(enable_admin=True, enable_debug=True, max_output_tokens=16)
    table = ModelTable([entry], load=load)
    return Services(settings, models=table, observer=Observer(statistics_s=0), sessions=SessionStore())


@pytest.mark.timeout(280)
def test_requests_from_the_document_are_answered_as_it_says(tmp_path):
    services = services_of_a_model(tmp_path)
    seed = random.randrange(2**32)
    options = {"http": guarded_http_protocol(ConnectionLimits()), "ws": "none"}
    with running(protected_app(services), **options) as url:
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json"),
            *("--checks", ",".join(CHECKS)),
            *("--phases", "examples,coverage,fuzzing", "--max-examples", "5", "--max-time", "20"),
            *("--seed", str(seed), "--request-timeout", "30", "--suppress-health-check", "all", "--no-color"),
        ]
        (tmp_path / "openapi_hooks.py").write_text(HOOKS)
        hooks = {"SCHEMATHESIS_HOOKS": "openapi_hooks", "PYTHONPATH": str(tmp_path)}
        environment = {**os.environ, **hooks, "PYTHONIOENCODING": "utf-8"}
        done = subprocess.run(
            command,
            check=False,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            timeout=270,
            encoding="utf-8",
        )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "Coverage (in" in done.stdout
