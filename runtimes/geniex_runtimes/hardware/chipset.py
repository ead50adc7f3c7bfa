"""Which Snapdragon this is, and the architecture of its Hexagon NPU (HTP)."""

import re
from dataclasses import dataclass

from geniex_runtimes.contract import ProbeResult
from geniex_runtimes.hardware.sources import Sources

DISPLAY_CLASS = (
    r"SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"  # adapters
)
CPU_KEY = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"

# chipset, as the hubs name it -> HTP architecture
HTP_ARCH = {
    "qualcomm-qcs6490": 68,
    "qualcomm-qcs9075": 73,
    "qualcomm-snapdragon-x-elite": 73,
    "qualcomm-snapdragon-x-plus-8-core": 73,
    "qualcomm-qcs8275": 75,
    "qualcomm-snapdragon-x2-elite": 81,
    "qualcomm-snapdragon-8gen1": 69,
    "qualcomm-snapdragon-8gen2": 73,
    "qualcomm-snapdragon-8gen3": 75,
    "qualcomm-snapdragon-8-elite": 79,
    "qualcomm-snapdragon-8-elite-for-galaxy": 79,
    "qualcomm-snapdragon-8-elite-gen5": 81,
    "qualcomm-snapdragon-8-elite-gen5-for-galaxy": 81,
    "qualcomm-qcs8550-proxy": 73,
    "qualcomm-qcs8275-proxy": 75,
    "qualcomm-sa8775p": 73,
    "qualcomm-sa7255p": 75,
    "qualcomm-sa8295p": 68,
}

# SoC, as device trees and soc0 name it -> chipset; siblings share the die, so the HTP too
_SOCS = {
    "qcs6490": "qualcomm-qcs6490",
    "qcm6490": "qualcomm-qcs6490",
    "qcs9075": "qualcomm-qcs9075",
    "qcs9100": "qualcomm-qcs9075",
    "sa8775p": "qualcomm-qcs9075",
    "qcs8275": "qualcomm-qcs8275",
    "qcs8300": "qualcomm-qcs8275",
    "x1e80100": "qualcomm-snapdragon-x-elite",
    "x1e78100": "qualcomm-snapdragon-x-elite",
    "x1p42100": "qualcomm-snapdragon-x-plus-8-core",
    "glymur": "qualcomm-snapdragon-x2-elite",
}

# Android reports the bare SoC number, which stays the chipset's name
_ANDROID_ARCH = {
    "SM8350": 68,
    "SM8450": 69,
    "SM8475": 69,
    "SM8550": 73,
    "SM8650": 75,
    "SM8750": 79,
    "SM8845": 81,
    "SM8850": 81,
}

# the laptop families, for a SKU that is in no table: the number after the X decides the HTP
_FAMILY = {"1": "qualcomm-snapdragon-x-elite", "2": "qualcomm-snapdragon-x2-elite"}
# X1E80100, X1P42100, X126100 (no letter: the plain Snapdragon X), X2E96100
_SKU = re.compile(r"\bX(\d)([EP]?)-?\d{2}", re.IGNORECASE)
_UNLISTED = "that is not in the table"
_ADRENO = re.compile(r"\bX(\d)(?:-|\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Chipset:
    """A Snapdragon: its name at the hubs, and its HTP architecture (None where unknown)."""

    name: str
    htp_arch: int | None


def probe(sources: Sources) -> tuple[Chipset | None, ProbeResult]:
    """The chipset, and what it was recognised by or why there is none."""
    finders = {"Windows": _windows, "Linux": _linux, "Android": _android}
    finder = finders.get(sources.system)
    if finder is None:
        return None, ProbeResult("chipset", None, f"not looked for on {sources.system}")
    chipset, evidence = finder(sources)
    if chipset is None:
        return None, ProbeResult("chipset", None, evidence)
    arch = f"HTP v{chipset.htp_arch}" if chipset.htp_arch else "HTP architecture unknown"
    return chipset, ProbeResult("chipset", f"{chipset.name} ({arch}), by {evidence}")


def is_qualcomm(sources: Sources) -> bool:
    """Whether the SoC is one of Qualcomm's, be it in the tables or not."""
    chipset, result = probe(sources)
    return chipset is not None or _UNLISTED in (result.reason or "")


def named(text: str) -> Chipset:
    """The chipset that a user has named: by a hub's name for it, or by that of its SoC.

    A name that is not in the tables stays as it is, its HTP unknown.
    """
    name = text.strip()
    if name.casefold() in HTP_ARCH:
        return _known(name.casefold())
    soc = _soc(name)
    if soc is not None:
        return soc
    return Chipset(name, _ANDROID_ARCH.get(name.upper()))


def _known(name: str) -> Chipset:
    return Chipset(name, HTP_ARCH[name])


def _windows(sources: Sources) -> tuple[Chipset | None, str]:
    """By the CPU's SKU, which is exact; else by any Qualcomm display adapter."""
    cpu = str(sources.registry(CPU_KEY).get("", {}).get("ProcessorNameString", "")).strip()
    snapdragon = "snapdragon" in cpu.casefold()
    chipset = _by_sku(cpu) if snapdragon else None
    if chipset is not None:
        return chipset, f"CPU `{cpu}`"
    qualcomm = [
        str(values.get("DriverDesc", ""))
        for values in sources.registry(DISPLAY_CLASS).values()
        if "VEN_QCOM" in str(values.get("MatchingDeviceId", "")).upper()
    ]
    for adapter in qualcomm:
        family_match = _ADRENO.search(adapter)
        if family_match is not None and family_match.group(1) in _FAMILY:
            return _known(_FAMILY[family_match.group(1)]), f"display adapter `{adapter}`"
    if qualcomm or snapdragon:
        seen = qualcomm[0] if qualcomm else cpu
        return None, f"a Snapdragon {_UNLISTED}: `{seen}`"
    return None, "no Qualcomm display adapter, and no Snapdragon CPU"


def _linux(sources: Sources) -> tuple[Chipset | None, str]:
    """By the device tree, else by soc0; both name the SoC."""
    compatible = (sources.text("proc/device-tree/compatible") or "").split("\0")
    qualcomm = [entry for entry in compatible if entry.startswith("qcom,")]
    for entry in qualcomm:
        # boards are named after their SoC too: qcom,qcs6490-rb3gen2
        chipset = _soc(entry.removeprefix("qcom,").split("-")[0])
        if chipset is not None:
            return chipset, f"device tree `{entry}`"
    family = sources.text("sys/devices/soc0/family") or ""
    machine = sources.text("sys/devices/soc0/machine") or ""
    if family.casefold() == "snapdragon" or qualcomm:
        chipset = _soc(machine)
        if chipset is not None:
            return chipset, f"soc0 machine `{machine}`"
        seen = qualcomm[-1] if qualcomm else machine
        return None, f"a Qualcomm SoC {_UNLISTED}: `{seen}`"
    return None, "no Qualcomm entry in the device tree or soc0"


def _soc(text: str) -> Chipset | None:
    soc = text.strip().casefold()
    if soc in _SOCS:
        return _known(_SOCS[soc])
    return _by_sku(soc)


def _by_sku(text: str) -> Chipset | None:
    """A laptop chip by its SKU; one that is new to us counts as its family, whose HTP it shares."""
    sku = _SKU.search(text)
    if sku is None or sku.group(1) not in _FAMILY:
        return None
    if sku.group(1) == "1" and sku.group(2).upper() != "E":
        return _known("qualcomm-snapdragon-x-plus-8-core")
    return _known(_FAMILY[sku.group(1)])


def _android(sources: Sources) -> tuple[Chipset | None, str]:
    maker = sources.android_property("ro.soc.manufacturer").strip()
    if maker.casefold() not in ("qti", "qualcomm"):
        return None, f"the SoC's maker is `{maker or 'unknown'}`, not Qualcomm"
    model = sources.android_property("ro.soc.model").strip()
    if not model:
        return None, "the property ro.soc.model is empty"
    known = _soc(model)
    arch = known.htp_arch if known is not None else _ANDROID_ARCH.get(model.upper())
    return Chipset(model, arch), "the property ro.soc.model"
