"""`geniex clean`: all models go from the disk."""

import typer

from geniex.cli.options import Yes, settings_of
from geniex.cli.output import Output, confirm, waiting_for
from geniex_catalogue.sizes import size_text


def clean(ctx: typer.Context, yes: Yes = False) -> None:
    """Remove all models, partial and damaged ones too."""
    from geniex_catalogue.store import Store

    output = Output()
    store = Store(settings_of(ctx).data_dir)
    if not yes:
        confirm(f"Are you sure you want to delete all cached models in {store.models}?")
    count, freed = store.clean(on_wait=waiting_for("a model", output))
    output.tell(f"Removed {count} model{'' if count == 1 else 's'}, {size_text(freed)} freed")
