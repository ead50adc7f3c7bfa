"""Errors on their way out of a worker: told by class, text and hint, and raised again."""

from geniex_catalogue import errors as e
from geniex_runtimes import errors as r
from geniex_runtimes.llama_cpp.isolated.messages import Failed

# those that are made of a message and a hint alone; others go as the first of these they are
_PLAIN: dict[str, type[e.GenieXError]] = {
    kind.__name__: kind
    for kind in (
        e.UsageError,
        e.ModelFileError,
        r.RuntimeNotInstalledError,
        r.SpeculativeError,
        e.LoadError,
        e.RoleError,
        r.GenerationError,
        e.GenieXError,
    )
}


def told(number: int, error: Exception, *, loading: bool = False) -> Failed:
    """The report of an error; one that is no GenieXError is a fault of ours, and is named."""
    if isinstance(error, r.ContextLengthError):
        numbers = (error.prompt_tokens, error.context_length, int(error.at_least))
        return Failed(number, "ContextLengthError", error.message, error.hint, numbers)
    if not isinstance(error, e.GenieXError):
        kind = "LoadError" if loading else "GenerationError"
        return Failed(number, kind, f"the worker failed: {type(error).__name__}: {error}")
    names = [kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _PLAIN]
    kind = "LoadError" if loading and names[0] == "GenieXError" else names[0]
    return Failed(number, kind, error.message, error.hint)


def error_of(failed: Failed) -> e.GenieXError:
    """The error that was told."""
    if failed.kind == "ContextLengthError":
        prompt, context, at_least = failed.numbers
        return r.ContextLengthError(prompt, context, at_least=bool(at_least))
    kind = _PLAIN.get(failed.kind, r.GenerationError)
    return kind(failed.message, hint=failed.hint)
