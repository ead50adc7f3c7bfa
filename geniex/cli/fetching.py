"""Pulling at the terminal: the choice of a precision, the plan in words and in JSON, progress."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from geniex.cli.output import (
    Output,
    Status,
    confirm,
    is_terminal,
    one_line,
    read_line,
    table,
    waiting_for,
)
from geniex_catalogue.sizes import size_text

if TYPE_CHECKING:
    from geniex.config import Settings
    from geniex_catalogue.hubs.choice import Candidate, Pick
    from geniex_catalogue.names import ModelRef
    from geniex_catalogue.pull import PullPlan, PullWish
    from geniex_catalogue.resolver import Use
    from geniex_catalogue.stored import StoredModel


def fetch(
    ref: "ModelRef",
    settings: "Settings",
    output: Output,
    *,
    ask: bool = False,
    use: "Use | None" = None,
) -> "StoredModel":
    """Pull a model with progress; `ask` first, on a terminal. Raises the hub's errors.

    `use` is what it is pulled for: what cannot be used so is refused before its bytes come.
    """
    from geniex_catalogue.pull import PullWish
    from geniex_catalogue.resolver import check_role
    from geniex_runtimes.dispatcher import require_chat

    (plan,) = planned(ref, settings, output, PullWish(), ask=ask)
    if use is not None and plan.present is None and plan.header is not None:
        check_role(str(plan.ref), plan.header, use)
        if use == "model":
            require_chat(str(plan.ref), plan.header)
    if ask and plan.present is None and can_ask():
        confirm(f"Download {plan.ref} ({_size(plan)}) from {plan.hub}?", default=True)
    return run(plan, settings, output)


def planned(
    ref: "ModelRef",
    settings: "Settings",
    output: Output,
    wish: "PullWish",
    *,
    ask: bool = False,
) -> "tuple[PullPlan, ...]":
    """What a pull would do; where nothing is named, the precision is chosen, or asked for."""
    from dataclasses import replace

    from geniex.chipset import machine_of
    from geniex_catalogue.pull import plan_pulls
    from geniex_catalogue.store import Store

    with output.asking(f"looking for {ref}...") as status:
        wish = replace(
            wish,
            offline=settings.offline,
            machine=machine_of(settings),
            pick=picker(settings, output, status, ask=ask),
        )
        return plan_pulls(ref, Store(settings.data_dir), wish)


def run(
    plan: "PullPlan",
    settings: "Settings",
    output: Output,
    *,
    max_workers: int | None = None,
    progress: bool = True,
) -> "StoredModel":
    """Do what a plan says. Raises the hub's errors, TransferError, DiskSpaceError, StoreError."""
    from geniex.cli.progress import shown
    from geniex_catalogue.hubs.transfer import MAX_WORKERS
    from geniex_catalogue.pull import execute
    from geniex_catalogue.store import Store

    if plan.present is not None:
        output.note(f"{plan.ref} is here already")
        return plan.present
    for note in plan.delivery.notes if plan.delivery else ():
        output.note(one_line(note))
    output.note(_begins(plan))
    on_wait = waiting_for(str(plan.ref), output)
    try:
        with shown(plan.total, output, wanted=progress) as watcher:
            store, workers = Store(settings.data_dir), max_workers or MAX_WORKERS
            return execute(plan, store, watcher, on_wait, output.note, workers)
    except KeyboardInterrupt:
        output.note(f"stopped; what has arrived is kept, `geniex pull {plan.ref}` goes on")
        raise


def _begins(plan: "PullPlan") -> str:
    """What is about to happen, in a line."""
    left, size = plan.remaining, _size(plan)
    if left == 0 and plan.fetches:
        return f"{plan.ref} ({size}) is on this machine, nothing is downloaded"
    rest = f", {size_text(left)} to come" if left is not None and left != plan.total else ""
    return f"downloading {plan.ref} ({size}{rest}) from {plan.hub}"


def can_ask() -> bool:
    """Whether there is a person to ask."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def picker(settings: "Settings", output: Output, status: Status, *, ask: bool) -> "Pick":
    """Chooses the precision for this machine and says so in one line, or asks a person."""

    def pick(candidates: "Sequence[Candidate]") -> str:
        from geniex.cli.terminal import in_background
        from geniex.session import look_at_hardware
        from geniex_runtimes.precision_choice import best_precision

        machine = in_background(lambda: look_at_hardware(settings))
        sizes = [(candidate.label, candidate.size) for candidate in candidates]
        best, why = best_precision(sizes, machine, settings.compute)
        if ask and can_ask():
            status.stop()
            return _asked(sizes, best, why, output)
        labels = ", ".join(label for label, _ in sizes)
        output.note(one_line(f"precision {best}, of {labels}: {why}"))
        return best

    return pick


def _asked(sizes: Sequence[tuple[str, int | None]], best: str, why: str, output: Output) -> str:
    from geniex_catalogue.precision import find

    for label, size in sizes:
        mark = f"  {why}" if label == best else ""
        output.tell(f"  {label:<10} {size_text(size) if size else '?':>10}{mark}")
    labels = [label for label, _ in sizes]
    while True:
        answer = read_line(f"Precision [{best}]") or best
        if found := find(answer, labels):
            return found
        output.tell(f"`{one_line(answer)}` is none of them")


def _size(plan: "PullPlan") -> str:
    return size_text(plan.total) if plan.total else "unknown size"


def plan_json(plan: "PullPlan") -> dict[str, Any]:
    """A plan as JSON; sizes in bytes, null where the hub does not say."""
    from geniex_catalogue.pull_plan import arrived

    here = plan.present
    return {
        "name": str(plan.ref),
        "hub": plan.hub,
        "revision": plan.revision,
        "target": str(plan.target),
        "present": here is not None,
        "total": plan.total if here is None else here.size,
        "remaining": plan.remaining if here is None else 0,
        "needed": plan.needed,
        "free": plan.free,
        "files": [
            {
                "name": job.name,
                "size": job.size,
                "sha256": job.sha256,
                "present": job.size if job.name in plan.reused else arrived(job),
                "reused": str(plan.reused[job.name]) if job.name in plan.reused else None,
            }
            for job in plan.fetches
        ],
    }


def plan_text(plan: "PullPlan") -> str:
    """A plan for a person to read."""
    from geniex_catalogue.pull_plan import arrived

    if plan.present is not None:
        return f"{plan.ref} is here already, in {plan.target}"
    rows = [("FILE", "SIZE", "HERE")]
    for job in plan.fetches:
        begun = arrived(job)
        here = "in the Hugging Face cache" if job.name in plan.reused else ""
        here = here or (size_text(begun) if begun else "—")
        rows.append((one_line(job.name), size_text(job.size) if job.size else "unknown", here))
    known = plan.remaining
    fetched = size_text(known) if known is not None else "unknown"
    head = [
        ("model", str(plan.ref)),
        ("from", f"{plan.hub}, revision {plan.revision}"),
        ("to", str(plan.target)),
        ("size", f"{_size(plan)}, to fetch: {fetched}"),
        ("room", f"needed: {size_text(plan.needed)}, free: {size_text(plan.free)}"),
    ]
    return f"{table(head)}\n\n{table(rows)}"
