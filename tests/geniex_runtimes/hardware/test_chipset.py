"""The chipset is found on every system, and an unknown one is said to be so."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from geniex_runtimes.hardware import chipset
from geniex_runtimes.hardware.chipset import Chipset
from geniex_runtimes.hardware.sources import RegistryKey
from tests.geniex_runtimes.hardware.machines import device_tree, machine, soc0, windows

X_ELITE = Chipset("qualcomm-snapdragon-x-elite", 73)
X_PLUS = Chipset("qualcomm-snapdragon-x-plus-8-core", 73)
X2_ELITE = Chipset("qualcomm-snapdragon-x2-elite", 81)
QCS6490 = Chipset("qualcomm-qcs6490", 68)
QCS9075 = Chipset("qualcomm-qcs9075", 73)
QCS8275 = Chipset("qualcomm-qcs8275", 75)

QCOM = r"ACPI\VEN_QCOM&DEV_0C36"
X1_GPU = (QCOM, "Qualcomm(R) Adreno(TM) X1-85 GPU")
X2_GPU = (QCOM, "Qualcomm(R) Adreno(TM) X2-90 GPU")
VIRTUAL = (r"root\vdd", "Virtual Display Driver")
NVIDIA = (r"PCI\VEN_10DE&DEV_2684", "NVIDIA GeForce RTX 4090")


@pytest.mark.parametrize(
    ("registry", "expected"),
    [
        pytest.param(
            windows("Snapdragon(R) X Elite - X1E78100 - Qualcomm(R) Oryon(TM) CPU", X1_GPU),
            X_ELITE,
            id="x-elite",
        ),
        pytest.param(
            windows("Snapdragon(R) X Plus - X1P42100 - Qualcomm(R) Oryon(TM) CPU", X1_GPU),
            X_PLUS,
            id="x-plus-by-its-own-sku",
        ),
        pytest.param(
            windows("Snapdragon(R) X - X126100 - Qualcomm(R) Oryon(TM) CPU"),
            X_PLUS,
            id="plain-x-without-a-letter",
        ),
        pytest.param(
            windows("Snapdragon(R) X2 Elite Extreme - X2E96100 - Qualcomm(R) Oryon(TM) CPU"),
            X2_ELITE,
            id="x2-elite",
        ),
        pytest.param(
            windows("Snapdragon(R) X2 Plus - X2P64100"), X2_ELITE, id="x2-plus-shares-the-htp"
        ),
        pytest.param(windows("Virtual CPU", X1_GPU), X_ELITE, id="x1-adapter-alone"),
        pytest.param(windows("Virtual CPU", X2_GPU), X2_ELITE, id="x2-adapter-alone"),
        pytest.param(
            windows("Virtual CPU", VIRTUAL, X1_GPU), X_ELITE, id="adapter-is-not-the-first"
        ),
        pytest.param(
            windows("Snapdragon(R) X9 - X9E99100", X2_GPU), X2_ELITE, id="new-cpu-known-adapter"
        ),
    ],
)
def test_windows(tmp_path: Path, registry: Mapping[str, RegistryKey], expected: Chipset) -> None:
    found, result = chipset.probe(machine(tmp_path, system="Windows", registry=registry))
    assert found == expected
    assert result.found is not None
    assert f"HTP v{expected.htp_arch}" in result.found


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(device_tree("qcom,qcs6490-rb3gen2", "qcom,qcs6490"), QCS6490, id="rb3-gen-2"),
        pytest.param(device_tree("thundercomm,x", "qcom,qcm6490"), QCS6490, id="qcm6490"),
        pytest.param(device_tree("qcom,qcs9075-rb8", "qcom,qcs9075"), QCS9075, id="qcs9075"),
        pytest.param(device_tree("acme,box", "qcom,sa8775p"), QCS9075, id="sibling-die"),
        pytest.param(device_tree("arduino,monza", "qcom,qcs8300"), QCS8275, id="qcs8300"),
        pytest.param(soc0("Snapdragon", "QCS8275"), QCS8275, id="soc0"),
        pytest.param(soc0("SNAPDRAGON", "qcs8275"), QCS8275, id="soc0-any-case"),
        pytest.param(
            device_tree("acme,board", "qcom,new1") | soc0("Dragonwing", "QCS9075"),
            QCS9075,
            id="soc0-when-the-tree-is-unknown",
        ),
        pytest.param(
            device_tree("lenovo,t14s", "qcom,x1e78100", "qcom,x1e80100"), X_ELITE, id="x1e"
        ),
        pytest.param(device_tree("asus,zenbook", "qcom,x1p42100"), X_PLUS, id="x1p"),
        pytest.param(device_tree("acme,x", "qcom,x1e99999"), X_ELITE, id="new-sku-known-family"),
        pytest.param(device_tree("qcom,glymur-crd", "qcom,glymur"), X2_ELITE, id="x2"),
        pytest.param(device_tree("qcom,qcs6490-board"), QCS6490, id="only-the-board"),
    ],
)
def test_linux(tmp_path: Path, files: dict[str, str], expected: Chipset) -> None:
    found, result = chipset.probe(machine(tmp_path, files=files))
    assert found == expected
    assert result.reason is None


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        pytest.param({"maker": "QTI", "model": " SM8650 "}, Chipset("SM8650", 75), id="8-gen-3"),
        pytest.param({"maker": "Qualcomm", "model": "SM8850"}, Chipset("SM8850", 81), id="8-elite"),
        pytest.param({"maker": "qti", "model": "QCS6490"}, Chipset("QCS6490", 68), id="qcs6490"),
        pytest.param({"maker": "QTI", "model": "SM9999"}, Chipset("SM9999", None), id="unknown"),
        pytest.param({"maker": "MediaTek", "model": "MT6989"}, None, id="another-maker"),
        pytest.param({"maker": "QTI", "model": ""}, None, id="no-model"),
        pytest.param({}, None, id="no-properties"),
    ],
)
def test_android(tmp_path: Path, properties: dict[str, str], expected: Chipset | None) -> None:
    named = {
        "ro.soc.manufacturer": properties.get("maker", ""),
        "ro.soc.model": properties.get("model", ""),
    }
    found, result = chipset.probe(machine(tmp_path, system="Android", properties=named))
    assert found == expected
    assert (result.reason is None) == (expected is not None)


@pytest.mark.parametrize(
    ("system", "files", "registry", "says"),
    [
        pytest.param("Linux", {}, {}, "no Qualcomm", id="linux-x86"),
        pytest.param(
            "Linux", device_tree("raspberrypi,5", "brcm,bcm2712"), {}, "no Qualcomm", id="pi"
        ),
        pytest.param(
            "Linux", device_tree("acme,b", "qcom,qcs0001"), {}, "`qcom,qcs0001`", id="new-soc"
        ),
        pytest.param(
            "Windows", {}, windows("AMD Ryzen 9 X3D", NVIDIA), "no Qualcomm", id="windows-x86"
        ),
        pytest.param(
            "Windows", {}, windows("Intel(R) Xeon(R) CPU X5650"), "no Qualcomm", id="old-xeon"
        ),
        pytest.param("Windows", {}, {}, "no Qualcomm", id="windows-without-keys"),
        pytest.param(
            "Windows",
            {},
            windows("Snapdragon(R) X7 - X7E99100", (QCOM, "Qualcomm(R) Adreno(TM) X7-1")),
            "not in the table: `Qualcomm(R) Adreno(TM) X7-1`",
            id="new-windows-family",
        ),
        pytest.param("Darwin", {}, {}, "not looked for on Darwin", id="mac"),
    ],
)
def test_nothing_found_says_why(
    tmp_path: Path, system: str, files: dict[str, str], registry: dict[str, RegistryKey], says: str
) -> None:
    source = machine(tmp_path, system=system, files=files, registry=registry)
    found, result = chipset.probe(source)
    assert found is None
    assert result.found is None
    assert result.reason is not None
    assert says in result.reason
