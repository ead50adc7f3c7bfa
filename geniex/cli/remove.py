"""`geniex remove`: models, or precisions of them, go from the disk."""

from typing import TYPE_CHECKING, Annotated

import typer

from geniex.cli.errors import first_of, tell
from geniex.cli.options import Json, Yes, complete_models, settings_of
from geniex.cli.output import Output, confirm, waiting_for
from geniex_catalogue.errors import GenieXError
from geniex_catalogue.sizes import size_text

if TYPE_CHECKING:
    from geniex_catalogue.names import ModelRef
    from geniex_catalogue.store import Store


_ALL = "`geniex list --all` shows the models of the store"


def remove(
    ctx: typer.Context,
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...", help="org/repo[:precision]", autocompletion=complete_models
        ),
    ],
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """Remove models, or precisions of them.

    Where one fails, the others are removed all the same.
    """
    from geniex_catalogue.store import Store

    output = Output()
    store = Store(settings_of(ctx).data_dir)
    code = 0
    refs: list[ModelRef] = []
    for name in models:
        try:
            refs.append(stored(name, store))
        except GenieXError as exc:
            code = first_of(code, tell(exc))
    if refs and not yes:
        names = ", ".join(map(str, refs))
        confirm(f"Are you sure you want to delete {names}?")
    removed = []
    for ref in refs:
        try:
            freed = store.remove(ref, on_wait=waiting_for(str(ref), output))
            removed.append({"name": str(ref), "freed": freed})
            output.tell(f"Removed {ref}, {size_text(freed)} freed")
        except GenieXError as exc:
            code = first_of(code, tell(exc))
    if as_json:
        output.json(removed)
    if code:
        raise typer.Exit(code)


def stored(name: str, store: "Store") -> "ModelRef":
    """The name of a model that is in the store. Raises ModelNotFoundError."""
    from geniex_catalogue.entries import catalogue
    from geniex_catalogue.errors import ModelNotFoundError, UsageError
    from geniex_catalogue.names import parse

    ref = parse(name, catalogue().aliases)
    if store.find(ref) is None and catalogue().builtin_file(ref) is not None:
        raise UsageError(f"`{ref}` is built in: it is a part of geniex and stays", hint=_ALL)
    if store.find(ref) is None:
        raise ModelNotFoundError(str(ref), [model.name for model in store.list()][:3])
    return ref
