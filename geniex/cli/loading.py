"""From what the user typed to a loaded model, with progress, and open to Ctrl-C."""

import threading

from geniex.cli import terminal
from geniex.cli.output import Output
from geniex.config import Settings
from geniex.session import OpenModel, find_model, load_model
from geniex_catalogue.resolver import PullNeeded, ResolvedModel


def find_or_pull(name: str, settings: Settings, output: Output, *, yes: bool) -> ResolvedModel:
    """The files of a model; what is not here is pulled, after a question on a terminal.

    Raises the catalogue's errors, and KeyboardInterrupt where the answer is no.
    """
    found = find_model(name, settings)
    if isinstance(found, PullNeeded):
        from geniex.cli.pull import fetch

        output.note(f"`{found.ref}` is not here yet")
        fetch(found.ref, settings, output, ask=not yes)
        found = find_model(str(found.ref), settings)
    if isinstance(found, PullNeeded):
        raise RuntimeError(f"`{found.ref}` was pulled and is not there")
    return found


def load(resolved: ResolvedModel, settings: Settings, output: Output) -> OpenModel:
    """Load a model. Ctrl-C gives the load up."""
    given_up = threading.Event()
    with output.status("loading model...") as status:

        def progress(share: float) -> bool:
            status.update(f"loading model... {share:.0%}")
            return not given_up.is_set()

        model = terminal.in_background(
            lambda: load_model(resolved, settings, progress=progress), given_up.set
        )
    for warning in model.warnings:
        output.warn(warning)
    info = model.loaded.info
    if settings.verbose:
        on = ",".join(info.devices) or info.compute
        output.note(
            f"Model loaded: runtime={info.runtime} compute={info.compute} devices={on} "
            f"ngl={model.plan.gpu_layers} nctx={info.context_length}"
        )
    return model
