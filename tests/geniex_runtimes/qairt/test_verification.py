"""Whether a bundle can run here: what it needs and what is here, said before anything is loaded."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from geniex_catalogue.errors import BundleError
from geniex_runtimes.errors import BundleTargetError, RuntimeNotInstalledError
from geniex_runtimes.hardware.sources import this_machine
from geniex_runtimes.qairt import device as devices
from geniex_runtimes.qairt import verification
from geniex_runtimes.qairt.bundle import read_bundle
from geniex_runtimes.qairt.context_header import read_context_header
from geniex_runtimes.qairt.device import QairtDevice, this_device
from geniex_runtimes.qairt.verification import verify
from tests.geniex_runtimes.qairt.plain_bundle import Change, content, put
from tests.qairt_bundles import QairtBundles

X_ELITE, GENIE = "qualcomm-snapdragon-x-elite", "genie_config.json"


@pytest.fixture(scope="module")
def simulator(qairt_bundles: QairtBundles) -> QairtDevice:
    return this_device()


@pytest.fixture(scope="module")
def laptop(simulator: QairtDevice) -> QairtDevice:
    """A Snapdragon, as far as the checks go: what they ask of libraries, the simulator's answer."""
    return replace(
        simulator,
        simulator=False,
        architectures=frozenset({68, 73, 81}),
        chipset=X_ELITE,
        htp_arch=73,
        system="Windows ARM64",
    )


def test_what_is_here(simulator: QairtDevice) -> None:
    assert (simulator.name, simulator.simulator) == ("HTP simulator", True)
    assert simulator.text.startswith("the HTP simulator of QAIRT 2.51.0 on Linux ")
    assert (simulator.libraries / "libGenie.so").is_file()


@pytest.mark.parametrize(("arch", "parts"), [(73, 1), (73, 2), (75, 1), (79, 1), (81, 1)])
def test_the_simulator_is_every_hexagon(
    qairt_bundles: QairtBundles, simulator: QairtDevice, arch: int, parts: int
) -> None:
    facts = verify(read_bundle(qairt_bundles.folder(arch, parts)), simulator)
    assert [one and one.htp_arch for one in facts] == [arch] * parts
    assert {one.build for one in facts if one} == {"2.51.0"}


def test_shared_weights_are_refused_before_anything_is_asked(
    qairt_bundles: QairtBundles,
    simulator: QairtDevice,
    laptop: QairtDevice,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bundle = read_bundle(qairt_bundles.folder(weight_sharing=True))
    assert verify(bundle, laptop)
    monkeypatch.setattr(verification, "inspect", lambda *_: pytest.fail("a library was asked"))
    with pytest.raises(BundleTargetError) as caught:
        verify(bundle, simulator)
    error = caught.value
    assert error.file == bundle.shards[0]
    assert error.needs == (
        "the Hexagon NPU of a Snapdragon (HTP v73), since its graphs share their weights"
    )
    assert error.here == f"{simulator.text}, which cannot load shared weights"
    assert "Snapdragon" in str(error.hint)


LAPTOPS: dict[str, tuple[Callable[[QairtDevice], QairtDevice], int, str | None]] = {
    "the same": (lambda one: one, 73, None),
    "another": (lambda one: one, 81, f"needs HTP v81; here is {X_ELITE} (HTP v73) with QAIRT"),
    "unknown chipset": (lambda one: replace(one, chipset=None, htp_arch=None), 73, None),
    "unknown chipset, no library": (
        lambda one: replace(one, chipset=None, htp_arch=None),
        75,
        "whose libraries drive v68, v73, v81",
    ),
    "known chipset, no library": (
        lambda one: replace(one, chipset="qualcomm-qcs8275", htp_arch=75),
        75,
        "here is qualcomm-qcs8275 (HTP v75) with QAIRT 2.51.0 on Windows ARM64, whose libraries",
    ),
}


@pytest.mark.parametrize(("change", "arch", "reason"), LAPTOPS.values(), ids=LAPTOPS)
def test_a_hexagon_is_what_it_is(
    qairt_bundles: QairtBundles,
    laptop: QairtDevice,
    change: Callable[[QairtDevice], QairtDevice],
    arch: int,
    reason: str | None,
) -> None:
    bundle = read_bundle(qairt_bundles.folder(arch))
    if reason is None:
        assert verify(bundle, change(laptop))
        return
    with pytest.raises(BundleTargetError) as caught:
        verify(bundle, change(laptop))
    assert reason in caught.value.message


@pytest.mark.parametrize("where", ["metadata", "binary"])
def test_a_newer_qairt(
    qairt_bundles: QairtBundles, simulator: QairtDevice, tmp_path: Path, where: str
) -> None:
    folder = qairt_bundles.copy(tmp_path)
    put("metadata.json", "tool_versions.qairt", "9.1" if where == "metadata" else ...)(folder)
    older = simulator if where == "metadata" else replace(simulator, qairt_version="2.9.9")
    needed = "9.1" if where == "metadata" else "2.51.0"
    with pytest.raises(BundleTargetError, match=f"needs QAIRT {needed} or newer; here is the HTP"):
        verify(read_bundle(folder), older)


def cut(length: int) -> Change:
    def change(folder: Path) -> None:
        (shard,) = folder.glob("*.bin")
        shard.write_bytes(shard.read_bytes()[:length])

    return change


def for_another_hexagon(folder: Path) -> None:
    put("metadata.json", "chipset_attributes.htp_version", 81)(folder)
    put("htp_backend_ext_config.json", "devices.0.dsp_arch", "v81")(folder)


SHARDS = {
    "truncated": (cut(300_000), "is truncated: it has 300000 of "),
    "cut in its head": (cut(2000), "is truncated: it has 2000 of "),
    "a few bytes": (cut(20), "is no context binary that can be read"),
    "something else": (
        content("tiny_talk_part_1_of_1.bin", b"PK\3\4" * 5000),
        "is no context binary that can be read",
    ),
    "a longer context in the config": (
        put(GENIE, "dialog.context.size", 128),
        "is compiled for a context of 64 tokens, and genie_config.json says 128",
    ),
    "another vocabulary in the config": (
        put(GENIE, "dialog.context.n-vocab", 500),
        "gives logits of 512 tokens, and genie_config.json says 500",
    ),
    "settings for another Hexagon": (
        for_another_hexagon,
        "is compiled for HTP v73, and the settings beside it are for v81",
    ),
}


@pytest.mark.parametrize(("change", "reason"), SHARDS.values(), ids=SHARDS)
def test_shards_that_do_not_fit(
    qairt_bundles: QairtBundles,
    simulator: QairtDevice,
    tmp_path: Path,
    change: Change,
    reason: str,
) -> None:
    folder = qairt_bundles.copy(tmp_path)
    change(folder)
    bundle = read_bundle(folder)
    with pytest.raises(BundleError) as caught:
        verify(bundle, simulator)
    assert not isinstance(caught.value, BundleTargetError)
    assert caught.value.file == bundle.shards[0]
    assert reason in caught.value.message
    assert caught.value.hint


def test_images_run_where_the_text_path_is_there(
    qairt_bundles: QairtBundles, simulator: QairtDevice, tmp_path: Path
) -> None:
    folder = qairt_bundles.copy(tmp_path)
    put("metadata.json", "genie.supports_vision", True)(folder)
    bundle = read_bundle(folder)
    (facts,) = verify(bundle, simulator)
    assert bundle.vision and facts is not None
    without = replace(
        facts, graphs=tuple(replace(graph, inputs=graph.inputs[1:]) for graph in facts.graphs)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verification, "inspect", lambda *_: (without,))
        with pytest.raises(BundleTargetError, match="takes embeddings instead of text"):
            verify(bundle, simulator)


def test_a_form_that_is_not_known_is_left_to_the_worker(
    qairt_bundles: QairtBundles, simulator: QairtDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "inspect", lambda *_: (None,))
    assert verify(read_bundle(qairt_bundles.folder()), simulator) == (None,)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        pytest.param(["libGenie.so", "libQnnHtp.so"], set(), id="simulator"),
        pytest.param(["QnnHtpV73Stub.dll", "QnnHtpV81Stub.dll", "Genie.dll"], {73, 81}, id="win"),
        pytest.param(["libQnnHtpV68Stub.so", "libQnnHtpV79Stub.so"], {68, 79}, id="linux"),
    ],
)
def test_libraries_by_what_they_drive(tmp_path: Path, names: list[str], found: set[int]) -> None:
    for name in names:
        (tmp_path / name).touch()
    assert devices.driven_architectures(tmp_path) == found


@pytest.mark.parametrize(
    ("compatible", "present", "text"),
    [
        pytest.param("qcom,x1e80100", True, f"{X_ELITE} (HTP v73) with QAIRT 2.51.0", id="known"),
        pytest.param(
            "qcom,x9z99999",
            True,
            "an unknown chipset (an HTP of unknown architecture) with QAIRT 2.51.0",
            id="new",
        ),
        pytest.param("brcm,bcm2712", False, "no Snapdragon but Linux ", id="another maker"),
    ],
)
def test_a_snapdragon_by_its_libraries_and_chipset(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    compatible: str,
    present: bool,
    text: str,
) -> None:
    (tmp_path / "libQnnHtpV73Stub.so").touch()
    (tmp_path / "proc/device-tree").mkdir(parents=True)
    (tmp_path / "proc/device-tree/compatible").write_text(f"maker,board\0{compatible}\0")
    monkeypatch.setattr(devices, "installed_libraries", lambda: (tmp_path, "2.51.0"))
    found = this_device(replace(this_machine(), system="Linux", root=tmp_path))
    assert (found.name, found.present, found.simulator) == ("NPU", present, False)
    assert found.architectures == {73}
    assert text in found.text


def test_no_snapdragon_at_all(qairt_bundles: QairtBundles, laptop: QairtDevice) -> None:
    server = replace(laptop, present=False, chipset=None, htp_arch=None, system="Linux aarch64")
    with pytest.raises(BundleTargetError, match=r"\(HTP v73\); here is no Snapdragon but Linux"):
        verify(read_bundle(qairt_bundles.folder()), server)


def test_the_package_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "PACKAGE", "no_such_package")
    with pytest.raises(RuntimeNotInstalledError, match="`onnxruntime-qnn` is not installed"):
        this_device()


def test_the_header_of_a_context_binary(qairt_bundles: QairtBundles, tmp_path: Path) -> None:
    (plain,) = qairt_bundles.folder().glob("*.bin")
    (shared,) = qairt_bundles.folder(weight_sharing=True).glob("*.bin")
    for path, shares in ((plain, False), (shared, True)):
        header = read_context_header(path)
        assert header is not None
        assert (header.stated_size, header.shares_weights) == (path.stat().st_size, shares)
        assert not header.truncated
    # settings say nothing of it
    settings = json.loads((plain.parent / "htp_backend_ext_config.json").read_text())
    assert settings["context"]["weight_sharing_enabled"] is True
