"""Every error that onnxgen raises on purpose.

    OnnxgenError
    ├── ConfigError              an option, environment variable or configuration file is wrong
    ├── OptionError              a generation or build option is unknown or out of range
    ├── ModelNotFoundError       no such model name, folder or file
    ├── DownloadError            weights could not be fetched or do not match their hash
    ├── ModelFileError           a file is missing, truncated, of the wrong kind or not confined to its folder
    │   ├── CheckpointError      a Hugging Face folder or GGUF file cannot be read
    │   │   └── UnsupportedArchitectureError
    │   ├── MetadataError        genai_config.json or inference_metadata.yaml is wrong
    │   └── TokenizerError       tokenizer files are wrong or of an unknown kind
    ├── BuildError               a checkpoint cannot be turned into a model folder
    ├── ChatTemplateError        a template is missing, refused or fails to render
    ├── CapabilityError          a model or a request needs what the backend cannot do
    ├── BackendError             a backend failed to load or to execute
    │   └── StepError            a step breaks the contract between engine and backend
    ├── TokenIdError             a token id is outside the vocabulary
    ├── ContextLengthError       a prompt or a request does not fit the context
    └── StateError               a call does not fit the state of the object

A message says what was asked, what was found, on which object, and what to do. Each class also
derives from the builtin that fits, so callers that know nothing of onnxgen catch the right thing.
"""

from __future__ import annotations


class OnnxgenError(Exception):
    """Base class of all errors raised on purpose."""


class ConfigError(OnnxgenError, ValueError):
    """An option, an environment variable or a configuration file is wrong."""


class OptionError(OnnxgenError, ValueError):
    """A generation or build option is unknown or out of range."""


class ModelNotFoundError(OnnxgenError, FileNotFoundError):
    """No model of that name, and no folder or file at that path."""


class DownloadError(OnnxgenError, OSError):
    """Weights could not be fetched, or what was fetched does not match its hash."""


class ModelFileError(OnnxgenError, ValueError):
    """A file of a model is missing, truncated, of the wrong kind or outside its folder."""


class CheckpointError(ModelFileError):
    """A Hugging Face folder or a GGUF file cannot be read."""


class UnsupportedArchitectureError(CheckpointError):
    """The checkpoint is readable, but no builder family knows its architecture."""


class MetadataError(ModelFileError):
    """``genai_config.json`` or ``inference_metadata.yaml`` says something we cannot accept."""


class TokenizerError(ModelFileError):
    """Tokenizer files are missing, broken or of an unknown kind."""


class BuildError(OnnxgenError, ValueError):
    """A checkpoint cannot be turned into a model folder as asked."""


class ChatTemplateError(OnnxgenError, ValueError):
    """A chat template is missing, refused by the sandbox, or fails to render."""


class CapabilityError(OnnxgenError, RuntimeError):
    """A model or a request needs something that the backend cannot do."""


class BackendError(OnnxgenError, RuntimeError):
    """A backend failed to load a model or to execute a step."""


class StepError(BackendError, ValueError):
    """A step breaks the contract between engine and backend."""


class TokenIdError(OnnxgenError, ValueError):
    """A token id is outside the vocabulary."""


class ContextLengthError(OnnxgenError, ValueError):
    """A prompt or a request does not fit the context; the message has both numbers."""


class StateError(OnnxgenError, RuntimeError):
    """A call does not fit the state that the object is in."""
