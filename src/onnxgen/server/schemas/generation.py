"""`GenerationFields`: what requests of all kinds say about how to answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

Texts = Annotated[list[str], Field(max_length=1024)]


class StreamOptions(BaseModel):
    """What a stream has besides the answer."""

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)

    include_usage: bool | None = None
    """A last chunk without choices has the usage of the whole request."""
    include_obfuscation: bool | None = None
    """Accepted and ignored: nothing is padded."""


class GenerationFields(BaseModel):
    """What requests of all kinds say about how to answer; null is what the model's or the server's defaults say.

    Numbers are numbers: a text or a boolean in place of one is refused. Fields that are not here are ignored, and
    named in the server's log once.
    """

    model_config = ConfigDict(strict=True, extra="allow", use_attribute_docstrings=True)

    model: str | None = Field(default=None, max_length=512)
    """Who answers, by a name of `/v1/models`; left out: the only model, or the first."""
    stream: bool | None = None
    """Send the answer in pieces, as server-sent events."""
    stream_options: StreamOptions | None = None
    """What a stream has besides the answer."""

    n: int | None = None
    """How many answers."""
    max_tokens: int | None = Field(
        default=None, validation_alias=AliasChoices("max_tokens", "max_new_tokens")
    )
    """The answer's length at most, in tokens; left out: what the context leaves, or what the server allows."""
    min_tokens: int | None = Field(
        default=None, validation_alias=AliasChoices("min_tokens", "min_new_tokens")
    )
    """No end of the answer before it has this many tokens."""
    stop: str | Texts | None = None
    """Texts that end the answer; they are not part of it."""
    stop_token_ids: Annotated[list[int], Field(max_length=1024)] | None = None
    """Tokens that end the answer."""
    ignore_eos: bool | None = None
    """End-of-sequence tokens do not end the answer."""
    deadline_s: float | None = None
    """Seconds after which the answer ends with what it has."""
    seed: int | None = None
    """The same seed gives the same answer; -1 or left out: a fresh one."""

    temperature: float | None = None
    """0 takes the best token each time."""
    top_p: float | None = None
    """Draw from the fewest best tokens whose probabilities reach this; 1 is off."""
    top_k: int | None = None
    """Draw from this many best tokens only; 0 or -1 is off."""
    min_p: float | None = None
    """Draw from tokens at least this times as likely as the best one; 0 is off."""
    top_a: float | None = None
    """Draw from tokens of at least this times the squared probability of the best one; 0 is off."""
    typical_p: float | None = Field(default=None, validation_alias=AliasChoices("typical_p", "typical"))
    """Draw from the tokens whose surprise is nearest to the expected one; 1 is off."""
    top_n_sigma: float | None = None
    """Draw from tokens within this many standard deviations of the best logit; 0 or -1 is off."""
    xtc_probability: float | None = None
    """How often the likeliest tokens are left out."""
    xtc_threshold: float | None = None
    """Probability from which a token may be left out."""
    mirostat: int | None = None
    """1 or 2 keep the surprise of the answer near mirostat_tau; 0 is off."""
    mirostat_tau: float | None = None
    """Surprise to keep, in bits."""
    mirostat_eta: float | None = None
    """How fast it is followed."""
    repetition_penalty: float | None = Field(
        default=None, validation_alias=AliasChoices("repetition_penalty", "repeat_penalty")
    )
    """Above 1 makes tokens that occurred (prompt included) less likely; 1 is off."""
    repetition_window: int | None = None
    """Only so many of the last tokens count for it; 0 for all."""
    repeat_last_n: int | None = None
    """Likewise in llama.cpp's words: -1 for all, 0 switches the penalty off."""
    presence_penalty: float | None = None
    """Taken from tokens of the answer so far, -2 to 2."""
    frequency_penalty: float | None = None
    """Likewise, for each time they occurred."""
    no_repeat_ngram_size: int | None = None
    """No run of this many tokens twice; 0 is off."""
    dry_multiplier: float | None = None
    """Penalty of tokens that would go on repeating a longer run; 0 is off."""
    dry_base: float | None = None
    """By how much it grows with each token of the run."""
    dry_allowed_length: int | None = None
    """Runs up to this many tokens are free."""
    dry_window: int | None = None
    """Only so many of the last tokens count for it; 0 for all."""
    dry_penalty_last_n: int | None = None
    """Likewise in llama.cpp's words: -1 for all, 0 switches the penalty off."""
    dry_breakers: Texts | None = Field(
        default=None, validation_alias=AliasChoices("dry_breakers", "dry_sequence_breakers")
    )
    """Texts over which no run reaches."""
    bad_words: Annotated[list[str | list[int]], Field(max_length=1024)] | None = None
    """Texts, or lists of token ids, that must not occur in the answer."""
    logit_bias: Annotated[dict[str, float], Field(max_length=4096)] | None = None
    """What is added to the logits of tokens, -100 to 100, by token id or by a text of one token."""
    forced_tokens: str | list[int] | None = None
    """What the answer begins with: a text, or token ids."""

    num_beams: int | None = None
    """Above 1 is refused: engines in processes of their own search no beams."""
    num_beam_groups: int | None = None
    """Groups of beams that are kept apart by diversity_penalty."""
    diversity_penalty: float | None = None
    """Taken from tokens that an earlier group chose at the same place."""
    length_penalty: float | None = None
    """Exponent of the length that a beam's score is divided by."""
    early_stopping: bool | Literal["never"] | None = None
    """When beams end; see the documentation of generation options."""

    response_format: dict[str, Any] | str | None = None
    """What the answer must look like: OpenAI's text, json_object and json_schema, and regex, lark, choice, llguidance."""
    structured_outputs: dict[str, Any] | None = None
    """Likewise in vLLM's words: one of json, json_object, regex, choice and grammar (Lark)."""
    guided_json: dict[str, Any] | str | None = None
    """Likewise: a JSON schema, or its text."""
    guided_regex: str | None = None
    """Likewise: a regular expression."""
    guided_choice: list[str] | None = None
    """Likewise: one of these texts."""
    guided_grammar: str | None = None
    """Likewise: a grammar in Lark's form."""
    json_schema: dict[str, Any] | None = None
    """Likewise: a JSON schema."""
    grammar: str | None = None
    """Refused: GBNF is not read here; use response_format of type lark."""

    logprobs_of: Literal["raw", "processed"] | None = None
    """Log probabilities of the model's distribution, or of the one that was drawn from."""
    adapter: str | None = Field(default=None, max_length=512)
    """Name of a loaded adapter."""
    speculation: dict[str, Any] | str | None = None
    """How tokens are guessed ahead: a method such as prompt_lookup, or its options."""
    priority: int | None = None
    """Under the policy priority: smaller goes first."""
    cache_salt: str | None = Field(default=None, max_length=512)
    """Cached prefixes are shared only with requests of the same salt."""

    user: Any = None
    """Accepted and ignored: tenants are told apart by their keys."""
    store: Any = None
    """Accepted and ignored where nothing is kept."""
    metadata: Any = None
    """Accepted and ignored."""
    service_tier: Any = None
    """Accepted and ignored."""
    safety_identifier: Any = None
    """Accepted and ignored."""
    prompt_cache_key: Any = None
    """Accepted and ignored: what prompts have in common is found by itself."""
    prompt_cache_retention: Any = None
    """Accepted and ignored."""

    @property
    def wants_stream(self) -> bool:
        """Whether the client gets pieces."""
        return bool(self.stream)

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def length(self) -> tuple[str, int | None]:
        """The answer's length at most, and the name of the field that says so."""
        return "max_tokens", self.max_tokens

    def num_logprobs(self) -> tuple[str, int | None]:
        """How many likeliest tokens are wanted at each place, and the name of the field that says so."""
        return "logprobs", None
