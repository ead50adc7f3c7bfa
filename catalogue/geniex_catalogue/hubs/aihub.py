"""Qualcomm AI Hub: bundles that are compiled for one chipset, found in its release index."""

import re
from pathlib import Path

from geniex_catalogue.errors import HubAuthError, HubError, HubNotFoundError
from geniex_catalogue.folder import BundleFacts
from geniex_catalogue.hubs.aihub_choice import choose_asset, find_host, find_model, labels
from geniex_catalogue.hubs.aihub_index import Asset, HubModel
from geniex_catalogue.hubs.aihub_release import Release
from geniex_catalogue.hubs.contract import Delivery, Item, Machine, Source
from geniex_catalogue.hubs.remote_archive import look_into
from geniex_catalogue.hubs.web import Patience, host
from geniex_catalogue.names import ModelRef

CACHE = "aihub"


class AIHub:
    """The AI Hub's models for one machine; lists are kept below the data folder for an hour.

    GENIEX_AIHUBBASEURL is another place of releases, GENIEX_AIHUBVERSION a certain one of them.
    """

    name = "aihub"

    def __init__(self, data_dir: Path, patience: Patience | None = None) -> None:
        self._cache = data_dir / CACHE
        self._patience = patience

    def release(self, version: str | None = None, *, offline: bool = False) -> Release:
        """A release's lists; see `version_wanted` for `version`. Raises UsageError."""
        return Release(self._cache, version=version, offline=offline, patience=self._patience)

    def precisions(
        self, ref: ModelRef, machine: Machine, version: str | None = None
    ) -> tuple[str, ...]:
        """The precisions of a model's bundles that run on a machine, those of its chipset first.

        Raises ChipsetError, NotCompiledError, LicenceError, HubError, TransferError.
        """
        release = self.release(version)
        model = find_model(release.index(), ref)
        platform = release.platform()
        host = find_host(platform, machine)
        return labels(model, release.assets(model), platform, host)

    def deliver(self, ref: ModelRef, machine: Machine, version: str | None = None) -> Delivery:
        """The bundle of a model for a machine.

        Raises ChipsetError, NotCompiledError, LicenceError, HubError, TransferError,
        PrecisionNotFoundError, and ModelFileError for an archive that is refused.
        """
        # a revision of an earlier delivery names its archive too
        release = self.release(version.partition("/")[0] if version else None)
        model = find_model(release.index(), ref)
        platform = release.platform()
        host = find_host(platform, machine)
        chosen = choose_asset(model, release.assets(model), platform, host, ref.precision)
        asset = chosen.asset
        if not asset.url.startswith(("https://", "http://")):
            raise HubError(f"the AI Hub gives no usable address for `{model.name}`")
        items, facts = self._look_into(model, asset)
        notes = (*release.notes, *filter(None, [chosen.note]))
        return Delivery(
            hub=self.name,
            label=asset.precision,
            revision=_revision(asset.url, release.version),
            format="qairt",
            items=items,
            model_type="vlm" if facts.model_type == "vlm" else model.type,
            notes=notes,
        )

    def _look_into(self, model: HubModel, asset: Asset) -> tuple[tuple[Item, ...], BundleFacts]:
        """The files in a bundle's archive."""
        name = asset.url.partition("?")[0].rpartition("/")[2]
        try:
            return look_into(Source(asset.url), name, self._patience)
        except (HubAuthError, HubNotFoundError) as exc:
            # a store of files says 403 for what is not there
            raise HubNotFoundError(
                f"the bundle of `{model.name}` is not on `{host(asset.url)}`, where its list says",
                hint="name another release with `--revision`, or try again in an hour",
            ) from exc


def _revision(url: str, release: str) -> str:
    """What tells this bundle from others of the same model: its release, and its archive's name."""
    path = url.partition("?")[0]
    found = re.search(r"/releases/(v[^/]+)/", path)
    return f"{found[1] if found else release}/{path.rpartition('/')[2]}"
