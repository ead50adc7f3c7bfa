"""Models whose files another process removes or changes while they are read."""

from collections.abc import Iterator
from contextlib import contextmanager

from geniex_catalogue.errors import GenieXError, LoadError, ModelNotFoundError
from geniex_catalogue.names import LOCAL_ORG
from geniex_catalogue.resolver import ResolvedModel


@contextmanager
def changes_told(*models: ResolvedModel | None) -> Iterator[None]:
    """Where an error comes of what another process has done to a model's files, say that.

    Raises ModelNotFoundError for a model that was removed, LoadError for one that was changed.
    """
    try:
        yield
    except GenieXError as exc:
        for model in models:
            if model is not None and (changed := _change_of(model)) is not None:
                raise changed from exc
        raise


def _change_of(model: ResolvedModel) -> GenieXError | None:
    """What another process has done to a model's files since they were found, if anything."""
    try:
        size = sum(path.stat().st_size for path in model.files)
    except FileNotFoundError:
        on_hub = model.ref is not None and model.ref.org != LOCAL_ORG
        fetch = f"; `geniex pull {model.ref}` fetches it again" if on_hub else ""
        hint = f"it was removed while it was being loaded{fetch}"
        return ModelNotFoundError(model.name, hint=hint)
    except OSError:
        return None
    if model.format == "gguf" and size != model.size:
        return LoadError(f"`{model.name}` was changed while it was being loaded", hint="try again")
    return None
