"""From what the user typed to a loaded model, with progress, and open to Ctrl-C."""

import sys
import threading

from geniex.cli import terminal
from geniex.cli.output import DeclinedError, Output, is_dumb, is_terminal, one_line
from geniex.config import Settings
from geniex.session import (
    OpenModel,
    decide_speculation,
    find_model,
    load_model,
    plan_model,
)
from geniex.speculation import check_before_pull
from geniex.speculation_wish import NO_WISH, SpeculationWish
from geniex_catalogue.resolver import PullNeeded, ResolvedModel, Use


def find_or_pull(
    name: str,
    settings: Settings,
    output: Output,
    *,
    yes: bool,
    use: Use = "model",
    wish: SpeculationWish = NO_WISH,
) -> ResolvedModel:
    """The files of a model; what is not here is pulled, after a question on a terminal.

    Raises the catalogue's errors, DeclinedError where the answer is no, and UsageError for a
    `wish` that is known to fail with what would be pulled.
    """
    found = find_model(name, settings, use)
    if isinstance(found, PullNeeded):
        check_before_pull(wish, found.ref)
        from geniex.cli.fetching import fetch

        output.note(f"`{found.ref}` is not here yet")
        if found.aside:
            output.warn(found.aside)
        fetch(found.ref, settings, output, ask=not yes, use=use)
        found = find_model(str(found.ref), settings, use)
    if isinstance(found, PullNeeded):
        raise RuntimeError(f"`{found.ref}` was pulled and is not there")
    return found


def tune(
    resolved: ResolvedModel, settings: Settings, wish: SpeculationWish, output: Output
) -> tuple[Settings, SpeculationWish]:
    """Settings and wish with the model's best settings in them; says so in a line."""
    if not settings.best:
        return settings, wish
    from geniex.tuned import has_draft, tuned

    made = tuned(resolved, settings, wish, has_draft(settings))
    if made.note:
        output.note(made.note)
    return made.settings, made.wish


class DraftFinder:
    """Finds drafts, and pulls those that are not here.

    One that the user did not name is pulled after a yes: typed at the terminal, or given as `yes`.
    """

    def __init__(self, settings: Settings, output: Output, *, yes: bool, ask: bool) -> None:
        self._settings = settings
        self._output = output
        self._yes = yes
        self._ask = ask and is_terminal(sys.stdin) and is_terminal(sys.stderr)

    def __call__(self, name: str, *, offered: bool) -> ResolvedModel | None:
        """The draft's files; see `geniex.speculation.FindDraft`."""
        settings, output = self._settings, self._output
        if not offered:
            yes = self._yes or not self._ask
            return find_or_pull(name, settings, output, yes=yes, use="draft")
        found = find_model(name, settings, "draft")
        if isinstance(found, ResolvedModel):
            return found
        if not (self._yes or self._ask):
            return None
        try:
            return find_or_pull(name, settings, output, yes=self._yes, use="draft")
        except DeclinedError:
            return None


def load(
    resolved: ResolvedModel,
    settings: Settings,
    output: Output,
    wish: SpeculationWish,
    find_draft: DraftFinder,
    *,
    hush: bool,
) -> OpenModel:
    """Choose what runs the model, find its draft where one is wanted, load. Ctrl-C gives it up.

    `hush` keeps what is typed meanwhile for the chat that follows.
    """
    hush = hush and not is_dumb()
    if hush and not wish.wanted:
        terminal.hush()
    with output.status("looking at the hardware..."):
        planned = terminal.in_background(lambda: plan_model(resolved, settings))
    speculation = decide_speculation(wish, resolved, planned[1], settings, find_draft)
    if speculation.choice:
        output.note(one_line(speculation.choice))
    if hush and wish.wanted:  # not before: there may have been a question
        terminal.hush()
    given_up = threading.Event()
    with output.status("loading model...") as status:

        def progress(share: float) -> bool:
            status.update(f"loading model... {share:.0%}")
            return not given_up.is_set()

        model = terminal.in_background(
            lambda: load_model(
                resolved, settings, planned=planned, speculation=speculation, progress=progress
            ),
            given_up.set,
        )
    for warning in model.warnings:
        output.warn(warning)
    info = model.loaded.info
    if settings.verbose:
        on = ",".join(info.devices) or info.compute
        # all layers of a bundle are on the NPU
        layers = "" if info.runtime == "qairt" else f"ngl={model.plan.gpu_layers} "
        cache = f" kv={model.plan.kv_type}" if model.plan.kv_type else ""
        output.note(
            f"Model loaded: runtime={info.runtime} compute={info.compute} devices={on} "
            f"{layers}nctx={info.context_length}{cache}"
        )
    return model
