"""Recorded hosts and excerpts of the AI Hub's index: which bundle each machine gets."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from geniex.chipset import machine_of
from geniex.config import Settings
from geniex_catalogue.errors import (
    ChipsetError,
    GenieXError,
    HubError,
    NotCompiledError,
    PrecisionNotFoundError,
)
from geniex_catalogue.hubs.aihub_choice import choose_asset, find_host
from geniex_catalogue.hubs.aihub_index import HubModel, read_assets, read_platform
from geniex_runtimes.hardware.sources import Sources
from tests.aihub import GENIE, ONNX, QAIRT, X2_ELITE, X_ELITE, asset, assets, platform
from tests.geniex_runtimes.hardware.machines import device_tree, machine, soc0, windows

PLATFORM = read_platform(platform())
MODEL = HubModel("m", "M", assets_url="x")
QCOM = r"ACPI\VEN_QCOM&DEV_0C36"
X_PLUS = "qualcomm-snapdragon-x-plus-8-core"
GEN2, GEN3 = "qualcomm-snapdragon-8gen2", "qualcomm-snapdragon-8gen3"
ELITE, GALAXY = "qualcomm-snapdragon-8-elite", "qualcomm-snapdragon-8-elite-for-galaxy"
GEN5 = "qualcomm-snapdragon-8-elite-gen5"
QCS6490, QCS9075, QCS8275 = "qualcomm-qcs6490", "qualcomm-qcs9075", "qualcomm-qcs8275"
PROXY, SA8775P, SA7255P = "qualcomm-qcs8275-proxy", "qualcomm-sa8775p", "qualcomm-sa7255p"

Host = Callable[[Path], Sources]


def laptop(cpu: str, adapter: str = "") -> Host:
    adapters = [(QCOM, adapter)] if adapter else []
    return lambda root: machine(root, system="Windows", registry=windows(cpu, *adapters))


def board(*compatible: str) -> Host:
    return lambda root: machine(root, files=device_tree(*compatible))


def soc(name: str, family: str = "Snapdragon") -> Host:
    return lambda root: machine(root, files=soc0(family, name))


def phone(model: str, maker: str = "QTI") -> Host:
    properties = {"ro.soc.manufacturer": maker, "ro.soc.model": model}
    return lambda root: machine(root, system="Android", properties=properties)


def nothing(system: str = "Linux") -> Host:
    return lambda root: machine(root, system=system)


X_ELITE_PC = laptop("Snapdragon(R) X Elite - X1E78100 - Qualcomm(R) Oryon(TM) CPU")
X_PLUS_PC = laptop("Snapdragon(R) X Plus - X1P42100 - Qualcomm(R) Oryon(TM) CPU")
X2_PC = laptop("Snapdragon(R) X2 Elite Extreme - X2E96100 - Qualcomm(R) Oryon(TM) CPU")
RB3 = board("qcom,qcs6490-rb3gen2", "qcom,qcs6490")
IQ9 = board("qcom,qcs9075-rb8", "qcom,qcs9075")
IQ8 = soc("QCS8275")

# an excerpt of a model's assets: chipset, precision, runtime
BOTH = [asset(X_ELITE), asset(X2_ELITE)]
PHONES = [asset(GEN2), asset(GEN3), asset(ELITE), asset(GEN5)]
OLD = [asset(X_ELITE, runtime=GENIE)]
TWO_RUNTIMES = [asset(X_ELITE, runtime=GENIE, precision="W4A16"), asset(X_ELITE, "W8A16")]
TWO_PRECISIONS = [asset(X_ELITE, "W8A16"), asset(X_ELITE, "W4A16"), asset(X_ELITE, "W4")]
AKIN = [asset(QCS9075), asset(GEN2), asset(X_ELITE)]
APART = [asset(X_ELITE, "W4A16"), asset(X_PLUS, "W8A16")]
OTHERS = [asset(None, "FLOAT", ONNX), asset(X_ELITE, "FLOAT", ONNX)]
NEW_NAME = [asset("qualcomm-snapdragon-x3-elite")]


@dataclass(frozen=True)
class Case:
    """A host, what its user has set and asked for, the assets, and what should come of it.

    `gets` is the chipset and precision of the bundle. `near` is a word of the note, where it is
    compiled for another chipset.
    """

    host: Host
    assets: list[object]
    gets: tuple[str, str] = ("", "")
    near: str | None = None
    setting: str | None = None
    asked: str | None = None
    refused: type[GenieXError] | None = None
    says: str = ""
    runtime: str = QAIRT


CASES = {
    # the very chipset
    "x-elite": Case(X_ELITE_PC, BOTH, (X_ELITE, "W4A16")),
    "x-elite by adapter": Case(
        laptop("Virtual CPU", "Qualcomm(R) Adreno(TM) X1-85 GPU"), BOTH, (X_ELITE, "W4A16")
    ),
    "x2-elite": Case(X2_PC, BOTH, (X2_ELITE, "W4A16")),
    "x2-elite by adapter": Case(
        laptop("Virtual CPU", "Qualcomm(R) Adreno(TM) X2-90 GPU"), BOTH, (X2_ELITE, "W4A16")
    ),
    "x2-plus": Case(laptop("Snapdragon(R) X2 Plus - X2P64100"), BOTH, (X2_ELITE, "W4A16")),
    "x-elite on linux": Case(
        board("lenovo,t14s", "qcom,x1e78100", "qcom,x1e80100"), BOTH, (X_ELITE, "W4A16")
    ),
    "x2 on linux": Case(board("qcom,glymur-crd", "qcom,glymur"), BOTH, (X2_ELITE, "W4A16")),
    "rb3 gen 2": Case(RB3, [asset(QCS6490)], (QCS6490, "W4A16")),
    "qcm6490": Case(board("acme,x", "qcom,qcm6490"), [asset(QCS6490)], (QCS6490, "W4A16")),
    "iq-9075": Case(IQ9, [asset(QCS9075)], (QCS9075, "W4A16")),
    "sibling die": Case(board("acme,x", "qcom,sa8775p"), [asset(QCS9075)], (QCS9075, "W4A16")),
    "iq-8275 by soc0": Case(IQ8, [asset(QCS8275)], (QCS8275, "W4A16")),
    "the runtime of old releases": Case(X_ELITE_PC, OLD, (X_ELITE, "W4A16"), runtime=GENIE),
    "made for geniex before made for genie": Case(X_ELITE_PC, TWO_RUNTIMES, (X_ELITE, "W8A16")),
    "the precision asked for, though for genie": Case(
        X_ELITE_PC, TWO_RUNTIMES, (X_ELITE, "W4A16"), asked="w4a16", runtime=GENIE
    ),
    "the first precision": Case(X_ELITE_PC, TWO_PRECISIONS, (X_ELITE, "W4")),
    "the precision asked for": Case(X_ELITE_PC, TWO_PRECISIONS, (X_ELITE, "W8A16"), asked="W8A16"),
    "in any case": Case(X_ELITE_PC, TWO_PRECISIONS, (X_ELITE, "W4A16"), asked="w4a16"),
    "assets in capitals": Case(X_ELITE_PC, [asset(X_ELITE.upper())], (X_ELITE.upper(), "W4A16")),
    "assets by an alias": Case(X_ELITE_PC, [asset("sc8380xp")], ("sc8380xp", "W4A16")),
    # another name of it
    "8 gen 2": Case(phone("SM8550"), PHONES, (GEN2, "W4A16")),
    "8 gen 3": Case(phone("SM8650", "Qualcomm"), PHONES, (GEN3, "W4A16")),
    "8 elite": Case(phone("SM8750"), PHONES, (ELITE, "W4A16")),
    "8 elite gen 5": Case(phone("SM8850"), PHONES, (GEN5, "W4A16")),
    "qcs6490 phone": Case(phone("QCS6490"), [asset(QCS6490)], (QCS6490, "W4A16")),
    "set: a reference device": Case(
        nothing(), BOTH, (X_ELITE, "W4A16"), setting="Snapdragon X Elite CRD"
    ),
    "set: in small letters": Case(
        nothing(), BOTH, (X2_ELITE, "W4A16"), setting=" snapdragon x2 elite crd "
    ),
    "set: an alias": Case(nothing("Darwin"), BOTH, (X_ELITE, "W4A16"), setting="SC8380XP"),
    "set: against the probe": Case(X_ELITE_PC, BOTH, (X2_ELITE, "W4A16"), setting=X2_ELITE),
    "set: a name before an alias": Case(
        nothing(), [asset(PROXY), asset(QCS8275)], (QCS8275, "W4A16"), setting="qualcomm-qcs8275"
    ),
    # the same HTP
    "x-plus takes the x-elite's": Case(
        X_PLUS_PC, BOTH, (X_ELITE, "W4A16"), near="Snapdragon X Elite CRD"
    ),
    "plain x": Case(
        laptop("Snapdragon(R) X - X126100 - Oryon"), BOTH, (X_ELITE, "W4A16"), near="v73"
    ),
    "the same die first": Case(X_PLUS_PC, AKIN, (X_ELITE, "W4A16"), near="v73"),
    "no die in common": Case(X_PLUS_PC, AKIN[:2], (QCS9075, "W4A16"), near="IQ-9075"),
    "the precision is only there for a sibling": Case(
        X_PLUS_PC, APART, (X_ELITE, "W4A16"), asked="W4A16", near="v73"
    ),
    "its own before a sibling's": Case(X_PLUS_PC, APART, (X_PLUS, "W8A16")),
    "iq-8275 takes the sa7255p's": Case(IQ8, [asset(SA7255P)], (SA7255P, "W4A16"), near="SA7255P"),
    "galaxy": Case(phone("SM8750"), [asset(GALAXY)], (GALAXY, "W4A16"), near="Galaxy S25"),
    "a phone that the table lacks": Case(phone("SM8845"), PHONES, (GEN5, "W4A16"), near="v81"),
    # no bundle
    "another HTP": Case(X2_PC, [asset(X_ELITE)], refused=NotCompiledError, says="X Elite CRD"),
    "8+ gen 1": Case(phone("SM8475"), BOTH, refused=NotCompiledError, says="`SM8475`"),
    "8 gen 1": Case(phone("SM8450"), BOTH, refused=NotCompiledError, says="Galaxy S22"),
    "a precision that is not there": Case(
        X_ELITE_PC, TWO_PRECISIONS, asked="W2", refused=PrecisionNotFoundError, says="W4, W4A16"
    ),
    "a precision of another HTP": Case(
        X2_PC,
        [asset(X2_ELITE, "W8A16"), asset(X_ELITE, "W4A16")],
        asked="W4A16",
        refused=PrecisionNotFoundError,
        says="available: W8A16",
    ),
    "for other programs only": Case(X_ELITE_PC, OTHERS, refused=HubError, says="no bundle"),
    "no assets": Case(X_ELITE_PC, [], refused=HubError, says="no bundle"),
    "assets for one that the table lacks": Case(
        X_ELITE_PC, NEW_NAME, refused=NotCompiledError, says="x3-elite"
    ),
    # no chipset
    "x86": Case(nothing(), BOTH, refused=ChipsetError, says="none was found"),
    "windows x86": Case(
        laptop("AMD Ryzen 9 X3D"), BOTH, refused=ChipsetError, says="config set chipset"
    ),
    "mac": Case(nothing("Darwin"), BOTH, refused=ChipsetError, says="none was found"),
    "a pi": Case(board("raspberrypi,5", "brcm,bcm2712"), BOTH, refused=ChipsetError, says="none"),
    "a new soc": Case(board("acme,b", "qcom,qcs0001"), BOTH, refused=ChipsetError, says="none"),
    "another maker": Case(phone("MT6989", "MediaTek"), BOTH, refused=ChipsetError, says="none"),
    "a new phone": Case(phone("SM9999"), BOTH, refused=ChipsetError, says="`SM9999` is not"),
    "set: nonsense": Case(
        X_ELITE_PC, BOTH, setting="pentium", refused=ChipsetError, says="Snapdragon X Elite CRD"
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_a_machine_gets(tmp_path: Path, case: Case) -> None:
    settings = Settings(data_dir=tmp_path, chipset=case.setting)
    found = machine_of(settings, case.host(tmp_path))
    listed = read_assets(assets(*case.assets))
    if case.refused is not None:
        with pytest.raises(case.refused) as caught:
            choose_asset(MODEL, listed, PLATFORM, find_host(PLATFORM, found), case.asked)
        assert case.says in f"{caught.value.message} {caught.value.hint}"
        return
    chosen = choose_asset(MODEL, listed, PLATFORM, find_host(PLATFORM, found), case.asked)
    asset_of = chosen.asset
    assert (asset_of.chipset, asset_of.precision) == case.gets
    assert asset_of.runtime == case.runtime
    assert (chosen.note is None) == (case.near is None)
    assert (case.near or "") in (chosen.note or "")


def test_the_table_is_long_enough() -> None:
    assert len(CASES) >= 40
    assert all(case.refused or case.gets != ("", "") for case in CASES.values())
