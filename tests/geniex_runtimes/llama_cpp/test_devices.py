"""ggml's list of devices in geniex' words, from a recorded list and from the installed library."""

import sys

import pytest

from geniex_runtimes.contract import Device
from geniex_runtimes.errors import RuntimeNotInstalledError
from geniex_runtimes.llama_cpp import devices, library

CPU, GPU, INTEGRATED, ACCELERATOR, META = range(5)


class Recorded:
    """What ggml answered on some machine: (name, description, kind, free, total)."""

    def __init__(self, *rows: tuple[str, str, int, int, int]) -> None:
        self._rows = rows

    def count(self) -> int:
        return len(self._rows)

    def device(self, index: int) -> int:
        return index

    def name(self, device: int) -> str:
        return self._rows[device][0]

    def description(self, device: int) -> str:
        return self._rows[device][1]

    def kind(self, device: int) -> int:
        return self._rows[device][2]

    def memory(self, device: int) -> tuple[int, int]:
        return self._rows[device][3], self._rows[device][4]


def _device(name: str, description: str, unit: str, total: int = 0, free: int = 0) -> Device:
    return Device(name, description, unit, "llama_cpp", total, free)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        pytest.param(
            Recorded(
                ("GPUOpenCL", "Adreno X1-85", GPU, 15, 16),
                ("HTP0", "Hexagon", GPU, 0, 0),
                ("HTP0:1", "Hexagon", GPU, 0, 0),
                ("CPU", "Oryon", CPU, 32, 32),
            ),
            [
                _device("GPUOpenCL", "Adreno X1-85", "gpu", 16, 15),
                _device("HTP0", "Hexagon", "npu"),
                _device("HTP0:1", "Hexagon", "npu"),
                _device("CPU", "Oryon", "cpu", 32, 32),
            ],
            id="snapdragon",
        ),
        pytest.param(
            Recorded(
                ("Vulkan0", "Iris Xe", INTEGRATED, 7, 8),
                ("CUDA0", "RTX 4090", GPU, 23, 24),
                ("BLAS", "OpenBLAS", ACCELERATOR, 0, 0),
                ("META", "several", META, 0, 0),
                ("CPU", "Core i9", CPU, 64, 64),
            ),
            [
                _device("CUDA0", "RTX 4090", "gpu", 24, 23),
                _device("CPU", "Core i9", "cpu", 64, 64),
                _device("Vulkan0", "Iris Xe", "gpu", 8, 7),
            ],
            id="a-card-before-the-integrated-one",
        ),
        pytest.param(Recorded(), [], id="none"),
    ],
)
def test_listed(recorded: Recorded, expected: list[Device]) -> None:
    assert list(devices.listed(recorded)) == expected


def test_the_installed_library_has_a_cpu() -> None:
    found = devices.list_devices()
    assert [device.name for device in found if device.unit == "cpu"] == ["CPU"]
    assert all(device.runtime == "llama_cpp" and device.description for device in found)


def test_a_broken_library_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeNotInstalledError("libggml.so: cannot open")

    monkeypatch.setattr(library, "load", fail)
    assert devices.list_devices() == ()


def test_a_library_without_a_function_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_libraries", lambda: [])
    assert devices.list_devices() == ()


def test_a_missing_module_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp._ggml", None)
    assert devices.list_devices() == ()
