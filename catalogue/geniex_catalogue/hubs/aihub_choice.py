"""Which model of the AI Hub a name means, and which of its bundles runs on a chipset."""

from collections.abc import Sequence
from dataclasses import dataclass

from geniex_catalogue import names, precision
from geniex_catalogue.errors import (
    ChipsetError,
    HubError,
    HubNotFoundError,
    LicenceError,
    ModelRefError,
    NotCompiledError,
    UsageError,
)
from geniex_catalogue.hubs.aihub_index import RUNTIMES, Asset, HubModel, Index
from geniex_catalogue.hubs.chipsets import KnownChipset, Platform
from geniex_catalogue.hubs.contract import Machine
from geniex_catalogue.names import ModelRef

ORG = "ai-hub-models"
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class ChosenAsset:
    """A bundle, and what to tell of how it was chosen (None: it is made for this very chipset)."""

    asset: Asset
    note: str | None = None


def typed_name(model: HubModel) -> str:
    """What to type for a model: its name where that can be one, else its id."""
    try:
        return f"{ORG}/{ModelRef(names.AI_HUB_ORG, model.name).repo}"
    except ModelRefError:
        return f"{ORG}/{model.id}"


def find_model(index: Index, ref: ModelRef) -> HubModel:
    """The model of that very name or id. Raises HubNotFoundError with near names, HubError."""
    if ref.file is not None:
        raise UsageError(
            f"`{ref}` names a GGUF file, and the AI Hub has compiled bundles",
            hint=f"`geniex pull {ORG}/{ref.repo}` fetches the one for this machine",
        )
    found = next((m for m in index.models if ref.repo in (m.name, m.id)), None)
    if found is None:
        known = {m.id.lower(): typed_name(m) for m in index.models if m.is_language_model}
        near = [known[ident] for ident in names.suggest(ref.repo, known)]
        hint = "did you mean " + " or ".join(f"`{name}`" for name in near) + "?" if near else None
        raise HubNotFoundError(
            f"`{ref.repo}` is not a model of the AI Hub",
            hint=hint or "`geniex hub list --all` shows what there is",
        )
    if not found.is_language_model or not found.has_bundle:
        raise HubError(
            f"`{found.name}` is on the AI Hub, but not as a bundle of a language model",
            hint="`geniex hub list --all` shows the models that geniex can run",
        )
    if not found.assets_url:
        raise LicenceError(
            f"the licence of `{found.name}` does not let the AI Hub give out compiled bundles",
            hint=f"export it yourself: `geniex hub export {typed_name(found)} --chipset CHIPSET` "
            "says how",
        )
    return found


def find_host(platform: Platform, machine: Machine) -> KnownChipset:
    """The chipset to choose for. Raises ChipsetError where it is not known."""
    if machine.chipset is None:
        raise ChipsetError(
            "the AI Hub compiles for one chipset, and none was found on this machine",
            platform.titles(chipset.name for chipset in platform.chipsets),
            hint='name it: `geniex config set chipset "Snapdragon X Elite CRD"`, or GENIEX_CHIPSET',
        )
    host = platform.host(machine.chipset, machine.htp_arch)
    if host is None:
        raise unknown_chipset(platform, machine.chipset)
    return host


def unknown_chipset(platform: Platform, name: str) -> ChipsetError:
    """The error for a chipset that is not in the table."""
    known = platform.titles(chipset.name for chipset in platform.chipsets)
    return ChipsetError(f"`{name}` is not a chipset that the AI Hub knows", known)


def choose_asset(
    model: HubModel,
    assets: Sequence[Asset],
    platform: Platform,
    host: KnownChipset,
    asked: str | None,
) -> ChosenAsset:
    """The bundle to fetch: for this chipset, else for one with the same HTP architecture.

    Of those the one in the precision that was `asked`, else the first by its label, and made for
    geniex rather than for Genie alone. Raises NotCompiledError where there is none for this
    chipset, PrecisionNotFoundError where there is none in that precision, HubError for a model
    without any.
    """
    own, akin = _fitting(model, assets, platform, host)
    if asked is not None:
        label = precision.require(
            f"{ORG}/{model.name}", asked, [asset.precision for asset in (*own, *akin)]
        )
        own = [asset for asset in own if asset.precision == label]
        akin = [asset for asset in akin if asset.precision == label]
    if own:
        return ChosenAsset(min(own, key=_preference))
    best = min(akin, key=lambda a: (_of(platform, a).soc != host.soc, *_preference(a), a.chipset))
    return ChosenAsset(
        best,
        f"compiled for `{_of(platform, best).title}`, which has the same HTP "
        f"(v{host.htp_arch}) as `{host.title}`",
    )


def labels(
    model: HubModel, assets: Sequence[Asset], platform: Platform, host: KnownChipset
) -> tuple[str, ...]:
    """The precisions that `choose_asset` can choose, its own first choice first."""
    own, akin = _fitting(model, assets, platform, host)
    return tuple(
        dict.fromkeys(a.precision for group in (own, akin) for a in sorted(group, key=_preference))
    )


def _fitting(
    model: HubModel, assets: Sequence[Asset], platform: Platform, host: KnownChipset
) -> tuple[list[Asset], list[Asset]]:
    """The bundles for a chipset, and those for others with the same HTP."""
    fitting = [asset for asset in assets if asset.runtime in RUNTIMES]
    if not fitting:
        raise HubError(f"`{model.name}` has no bundle that geniex can run on the AI Hub")
    own = [a for a in fitting if _of(platform, a).name == host.name]
    akin = [a for a in fitting if a not in own and host.runs_bundles_of(_of(platform, a))]
    if not own and not akin:
        raise NotCompiledError(
            model.name, host.title, platform.titles(asset.chipset for asset in fitting)
        )
    return own, akin


def for_chipset(index: Index, platform: Platform, host: KnownChipset) -> tuple[HubModel, ...]:
    """The models that have a bundle for a chipset or one with the same HTP, by name."""

    def fits(name: str) -> bool:
        other = platform.find(name)
        same = name.casefold() == host.name.casefold()
        return same or (other is not None and host.runs_bundles_of(other))

    return tuple(model for model in listed(index) if any(map(fits, model.chipsets)))


def listed(index: Index) -> tuple[HubModel, ...]:
    """The models that geniex can run, by name."""
    found = (m for m in index.models if m.is_language_model and m.runtimes and m.has_bundle)
    return tuple(sorted(found, key=lambda model: model.name.casefold()))


def _of(platform: Platform, asset: Asset) -> KnownChipset:
    """The chipset that an asset is for; one that is not in the table stands for itself alone."""
    return platform.find(asset.chipset) or KnownChipset(asset.chipset)


def _preference(asset: Asset) -> tuple[int, str]:
    return RUNTIMES.index(asset.runtime), asset.precision
