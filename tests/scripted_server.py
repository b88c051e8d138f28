"""A server whose model offers tools, marks reasoning, and answers written conversations with written texts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fake_recipe import scripted_backend
from onnxgen.server.services import Services
from server_doubles import fake_services
from tool_models import CONTEXT, TEMPLATE, TOOLS, call_text, prompt_text, user, write_tool_folder

Conversation = Sequence[Mapping[str, Any]]


def call(id: str, name: str, **arguments: Any) -> dict[str, Any]:
    """A call in an assistant's message."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def scripted_services(
    folder: Path,
    answers: Sequence[tuple[Conversation, str]],
    *,
    with_tools: Sequence[tuple[Conversation, str]] = (),
    template: str = TEMPLATE,
    backend: Mapping[str, Any] | None = None,
    **options: Any,
) -> Services:
    """The services of such a server.

    Args:
        folder: Where the model folder is written.
        answers: Conversations and what the model writes next.
        with_tools: Likewise, where `TOOLS` are offered.
        template: The chat template.
        backend: Further options of the backend.
        options: Of `fake_services`.
    """

    model = write_tool_folder(folder / "model", template=template)
    script = {prompt_text(model, messages, tools=None): text for messages, text in answers}
    script |= {prompt_text(model, messages, tools=TOOLS): text for messages, text in with_tools}
    made = scripted_backend(model, script, max_context=CONTEXT, **(backend or {}))
    return fake_services(folder, backend=made, template=template, context=CONTEXT, **options)


TWO_CALLS = call_text("weather", city="Lima") + call_text("weather", city="Rome")


def after_calls(question: str, *ids: str) -> list[dict[str, Any]]:
    """The conversation in which the model made `TWO_CALLS`, and heard the results ``1`` and ``2``."""
    calls = [call(ids[0], "weather", city="Lima"), call(ids[1], "weather", city="Rome")]
    return [
        user(question),
        {"role": "assistant", "content": "", "tool_calls": calls},
        *({"role": "tool", "tool_call_id": id, "content": str(n + 1)} for n, id in enumerate(ids)),
    ]


def ends(services: Services, *, within_s: float = 20.0) -> None:
    """Wait until the engine has nothing to do."""
    late = time.monotonic() + within_s
    (loaded,) = services.models.loaded()
    while loaded.text.num_pending:
        assert time.monotonic() < late, f"{loaded.text.num_pending} requests go on that nobody waits for"
        time.sleep(0.01)
