"""`geniex pull`: a model comes onto the disk, from a hub or from a local path."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geniex.cli import options as shared
from geniex.cli.output import Output, confirm, is_terminal, waiting_for
from geniex_catalogue.errors import ModelNotFoundError, ModelRefError, UsageError
from geniex_catalogue.sizes import size_text

if TYPE_CHECKING:
    from geniex.config import Settings
    from geniex_catalogue.names import ModelRef
    from geniex_catalogue.resolver import Use
    from geniex_catalogue.stored import StoredModel


class HubName(StrEnum):
    """Where a model comes from, with the short names."""

    HUGGINGFACE = "huggingface"
    HF = "hf"
    LOCALFS = "localfs"
    LOCAL = "local"


def pull(
    ctx: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="org/repo[:precision], an alias, or with --local-path a name like local/NAME",
            autocompletion=shared.complete_models,
        ),
    ],
    hub: Annotated[
        HubName | None,
        typer.Option("--model-hub", help="Where it comes from [default: huggingface]"),
    ] = None,
    revision: Annotated[
        str | None, typer.Option("--revision", help="A branch, tag or commit of the repository")
    ] = None,
    local_path: Annotated[
        Path | None,
        typer.Option("--local-path", help="A GGUF file, a folder or a zip to take it from"),
    ] = None,
    link: Annotated[
        bool, typer.Option("--link", help="With --local-path: hard links instead of copies")
    ] = False,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="With --local-path: leave the files where they are")
    ] = False,
    quiet: shared.Quiet = False,
) -> None:
    """Fetch a model onto this disk.

    What an earlier try fetched is used.
    """
    settings = shared.settings_of(ctx)
    from geniex_catalogue.entries import catalogue
    from geniex_catalogue.names import local_path as local_path_of
    from geniex_catalogue.names import parse

    output = Output(quiet=quiet)
    if local_path is None and local_path_of(model) is not None:
        raise UsageError(
            f"`{model}` is a path of this machine",
            hint=f"`geniex infer {model}` runs it as it is; "
            f"`geniex pull local/NAME --local-path {model}` takes it into the store",
        )
    try:
        ref = parse(model, catalogue().aliases)
    except ModelNotFoundError as exc:
        if local_path is None:
            raise
        raise ModelRefError(
            f"`{model}` is no name for a model", hint="give it one like `local/NAME`"
        ) from exc
    local = hub in (HubName.LOCALFS, HubName.LOCAL)
    if local_path is None and (local or link or in_place):
        raise UsageError("`--local-path` is missing", hint="give the path of what to import")
    if local_path is None:
        stored = fetch(ref, settings, output, revision=revision)
    elif (hub is not None and not local) or revision is not None:
        raise UsageError(
            "`--local-path` is a source of its own", hint="leave out `--model-hub` and `--revision`"
        )
    else:
        stored = _import(ref, local_path, settings, output, link=link, in_place=in_place)
    output.note("Download success" if local_path is None else "Import success")
    output.note(f"Size:      {size_text(stored.size)}")
    output.note(f"Location:  {stored.folder}")
    output.note(f"Precision: {', '.join(stored.precisions)}")


def fetch(
    ref: "ModelRef",
    settings: "Settings",
    output: Output,
    *,
    revision: str | None = None,
    ask: bool = False,
    use: "Use | None" = None,
) -> "StoredModel":
    """Pull a model with progress; `ask` first, on a terminal. Raises the hub's errors.

    `use` is what it is pulled for: what cannot be used so is refused before its bytes come.
    """
    import sys

    from geniex.cli.progress import shown
    from geniex_catalogue.pull import PullWish, execute, plan_pull
    from geniex_catalogue.resolver import check_role
    from geniex_catalogue.store import Store
    from geniex_runtimes.dispatcher import require_chat

    store = Store(settings.data_dir)
    with output.status(f"looking for {ref}..."):
        plan = plan_pull(ref, store, PullWish(revision=revision))
    if plan.present is not None:
        output.note(f"{plan.ref} is here already")
        return plan.present
    if use is not None and plan.header is not None:
        check_role(str(plan.ref), plan.header, use)
        if use == "model":
            require_chat(str(plan.ref), plan.header)
    size = size_text(plan.total) if plan.total else "unknown size"
    if ask and is_terminal(sys.stdin) and is_terminal(sys.stderr):
        confirm(f"Download {plan.ref} ({size}) from {plan.hub}?", default=True)
    output.note(f"downloading {plan.ref} ({size}) from {plan.hub}")
    try:
        with shown(plan.total, output) as progress:
            return execute(plan, store, progress, waiting_for(str(plan.ref), output))
    except KeyboardInterrupt:
        output.note(f"stopped; what has arrived is kept, `geniex pull {plan.ref}` goes on")
        raise


def _import(
    ref: "ModelRef",
    path: Path,
    settings: "Settings",
    output: Output,
    *,
    link: bool,
    in_place: bool,
) -> "StoredModel":
    from geniex.cli.progress import shown
    from geniex_catalogue.hubs.localfs import Mode, import_path
    from geniex_catalogue.store import Store

    if link and in_place:
        raise UsageError("`--link` and `--in-place` exclude each other", hint="give one of them")
    mode: Mode = "link" if link else "in_place" if in_place else "copy"
    store = Store(settings.data_dir)
    on_wait = waiting_for(str(ref), output)
    with shown(None, output) as progress:
        return import_path(ref, path.expanduser(), store, mode, progress=progress, on_wait=on_wait)
