"""Fetching again: what is damaged of a stored model, or what its hub has changed."""

from collections.abc import Iterable

from geniex_catalogue.errors import PrecisionNotFoundError, StoreError, UsageError
from geniex_catalogue.hubs.localfs import HUB as LOCAL
from geniex_catalogue.manifest import FileRecord, Manifest
from geniex_catalogue.pull_plan import NO_WISH, PullPlan, PullWish, plan_pull
from geniex_catalogue.store import Store
from geniex_catalogue.stored import StoredModel, records_of
from geniex_catalogue.verification import Report


def plan_repairs(report: Report, store: Store, wish: PullWish = NO_WISH) -> tuple[PullPlan, ...]:
    """Plans for what a check has found damaged: the same revision, and those files alone.

    `wish` has the token, the machine and whether there may be a network. Raises StoreError for a
    model without a manifest, UsageError for files that came from this machine, and what
    `plan_pull` raises.
    """
    model, manifest = report.model, report.model.manifest
    bad = {fault.record.name: fault.record for fault in report.faults if fault.record}
    if manifest is None or len(bad) < len(report.faults):
        raise StoreError(
            f"`{model.name}` cannot be repaired: {model.reason or 'its manifest names no model'}",
            hint=f"`geniex remove {model.name}`, then pull it again",
        )
    _refuse_local(model, bad.values())
    plans = []
    for label in manifest.models:
        names = {record.name for record in records_of(manifest, label)} & bad.keys()
        if names:
            plans.append(_plan(model, label, store, _again(wish, bad, names)))
    for name in sorted(bad.keys() - _in_precisions(manifest)):
        beside = next(iter(manifest.models))
        plans.append(_plan(model, beside, store, _again(wish, bad, {name}, files=(name,))))
    return tuple(plans)


def plan_updates(
    model: StoredModel, label: str | None, store: Store, wish: PullWish = NO_WISH
) -> tuple[PullPlan, ...]:
    """Plans for the newest revision of a stored model, or of one precision of it.

    Files whose hash has not changed are not fetched; a plan with `present` has nothing to do.
    Raises UsageError for a model of this machine, PrecisionNotFoundError, and what `plan_pull`
    raises.
    """
    manifest = model.manifest
    if manifest is None or not model.precisions:
        raise StoreError(
            f"`{model.name}` cannot be updated: {model.reason}",
            hint=f"`geniex pull {model.name}` fetches what is missing",
        )
    labels = model.precisions if label is None else (label,)
    if label is not None and label not in model.precisions:
        raise PrecisionNotFoundError(model.name, label, model.precisions)
    _refuse_local(model, (manifest.models[label] for label in labels))
    beside = tuple(
        record.name
        for record in manifest.files()
        if record.name not in _in_precisions(manifest) and record.downloaded and record.source
    )
    plans = []
    for number, each in enumerate(labels):
        files = beside if number == 0 else ()
        plans.append(_plan(model, each, store, _wish(wish, None, files=files)))
    return tuple(plans)


def _plan(model: StoredModel, label: str, store: Store, wish: PullWish) -> PullPlan:
    return plan_pull(model.named(label), store, wish)


def _again(
    wish: PullWish, bad: dict[str, FileRecord], names: set[str], files: tuple[str, ...] = ()
) -> PullWish:
    revision = next((bad[name].revision for name in names if bad[name].revision), None)
    return _wish(wish, revision, names, files)


def _wish(
    wish: PullWish,
    revision: str | None,
    again: Iterable[str] = (),
    files: tuple[str, ...] = (),
) -> PullWish:
    return PullWish(
        revision=revision,
        files=files,
        token=wish.token,
        offline=wish.offline,
        machine=wish.machine,
        fresh=True,
        again=frozenset(again),
        look_only=wish.look_only,
    )


def _in_precisions(manifest: Manifest) -> set[str]:
    return {r.name for label in manifest.models for r in records_of(manifest, label)}


def _refuse_local(model: StoredModel, records: Iterable[FileRecord]) -> None:
    """Refuse what no hub has. Raises UsageError."""
    for record in records:
        if record.source == LOCAL or record.place is not None:
            raise UsageError(
                f"`{record.name}` of `{model.name}` came from this machine, no hub has it",
                hint=f"import it again: `geniex pull {model.name} --local-path PATH`",
            )
