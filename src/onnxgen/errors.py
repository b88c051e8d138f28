"""Every error that onnxgen raises on purpose.

    OnnxgenError
    ├── ConfigError              an option, environment variable or configuration file is wrong
    ├── OptionError              a generation or build option is unknown or out of range
    │   └── GrammarError         a grammar is wrong, asks for what cannot be done, or costs too much
    ├── ModelNotFoundError       no such model name, folder or file
    ├── DownloadError            weights could not be fetched or do not match their hash
    ├── ModelFileError           a file is missing, truncated, of the wrong kind or not confined to its folder
    │   ├── CheckpointError      a Hugging Face folder or GGUF file cannot be read
    │   │   └── UnsupportedArchitectureError
    │   ├── MetadataError        genai_config.json or inference_metadata.yaml is wrong
    │   ├── TokenizerError       tokenizer files are wrong or of an unknown kind
    │   └── InvalidGraphError    an ONNX graph breaks the rules of the format
    ├── BuildError               a checkpoint cannot be turned into a model folder
    ├── ChatTemplateError        a template is missing, refused or fails to render
    ├── CapabilityError          a model or a request needs what the backend cannot do
    │   └── UnsupportedOperatorError   no execution provider runs a node
    ├── BackendError             a backend failed to load or to execute
    │   ├── StepError            a step breaks the contract between engine and backend
    │   ├── KernelError          a node of a graph failed while it was compiled or ran
    │   ├── MachineCodeError     compiled code of a kernel is damaged
    │   └── EngineDeadError      the engine that served a request is no more
    ├── LogitsProcessorError     a request's own logits processor failed, or left no token to choose
    ├── FeedError                inputs or output names of a run do not fit the model
    ├── RunCancelledError        a run was told to stop
    ├── TokenIdError             a token id is outside the vocabulary
    ├── ContextLengthError       a prompt or a request does not fit the context
    ├── AdmissionError           the engine does not take a request in
    │   ├── NeverFitsError       it needs more than there is at all; a smaller one would do
    │   └── QueueFullError       too many wait already; the same one may do later
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


class GrammarError(OptionError):
    """A grammar or JSON schema is wrong, impossible, too costly or not supported; the message names the part."""


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


class InvalidGraphError(ModelFileError):
    """An ONNX graph breaks the rules of the format; the message has every defect found, and where."""


class BuildError(OnnxgenError, ValueError):
    """A checkpoint cannot be turned into a model folder as asked."""


class ChatTemplateError(OnnxgenError, ValueError):
    """A chat template is missing, refused by the sandbox, or fails to render."""


class CapabilityError(OnnxgenError, RuntimeError):
    """A model or a request needs something that the backend cannot do."""


class UnsupportedOperatorError(CapabilityError):
    """No execution provider runs a node; the message has each provider's reason."""


class BackendError(OnnxgenError, RuntimeError):
    """A backend failed to load a model or to execute a step."""


class StepError(BackendError, ValueError):
    """A step breaks the contract between engine and backend."""


class KernelError(BackendError):
    """A node of a graph failed while it was compiled or ran; the message names it and, of a run, has its inputs."""


class MachineCodeError(BackendError, ValueError):
    """Compiled code of a kernel is damaged, or not what its name says."""


class LogitsProcessorError(OnnxgenError, RuntimeError):
    """A logits processor that came with a request raised, returned something, or left no token to choose."""


class EngineDeadError(BackendError):
    """The engine that served a request failed, or its process ended; the message has the exit code or signal."""


class FeedError(OnnxgenError, ValueError):
    """Inputs or output names of a run do not fit the model: the name, what was expected, what was found."""


class RunCancelledError(OnnxgenError, RuntimeError):
    """A run was told to stop through its run options."""


class TokenIdError(OnnxgenError, ValueError):
    """A token id is outside the vocabulary."""


class ContextLengthError(OnnxgenError, ValueError):
    """A prompt or a request does not fit the context; the message has both numbers."""


class AdmissionError(OnnxgenError, RuntimeError):
    """The engine does not take a request in; the message has what was asked and what there is."""


class NeverFitsError(AdmissionError, ValueError):
    """A request needs more than the engine has at all: waiting does not help, a smaller one would do."""


class QueueFullError(AdmissionError):
    """Too many requests wait already: the same one may be taken in later."""


class StateError(OnnxgenError, RuntimeError):
    """A call does not fit the state that the object is in."""
