"""Which precision suits a machine, where the user names none."""

from dataclasses import replace

import pytest

from geniex_runtimes.contract import Device, HardwareProfile
from geniex_runtimes.precision_choice import best_precision

GIB = 1 << 30
PLAIN = HardwareProfile(
    system="Linux",
    machine="aarch64",
    cpu="CPU",
    cpu_features=frozenset(),
    cores=4,
    logical_cores=8,
    memory_total=16 * GIB,
    memory_free=8 * GIB,
    devices=(Device("CPU", "CPU", "cpu", "llama_cpp"),),
    probes=(),
)
NPU = replace(PLAIN, devices=(*PLAIN.devices, Device("HTP0", "Hexagon", "npu", "llama_cpp")))
GPU = replace(PLAIN, devices=(*PLAIN.devices, Device("GPUOpenCL", "Adreno", "gpu", "llama_cpp")))
BUNDLES = replace(PLAIN, devices=(*PLAIN.devices, Device("HTP simulator", "", "npu", "qairt")))
WEAK = replace(NPU, chipset="qualcomm-qcs6490")


@pytest.mark.parametrize(
    ("labels", "machine", "compute", "best", "why"),
    [
        pytest.param("Q8_0 Q4_K_M Q4_0", PLAIN, None, "Q4_0", "the CPU", id="cpu"),
        pytest.param("Q8_0 Q4_K_M", PLAIN, None, "Q4_K_M", "the CPU", id="cpu without Q4_0"),
        pytest.param("Q8_0 Q4_K_M", GPU, None, "Q4_K_M", "the GPU", id="gpu"),
        pytest.param("Q8_0 Q4_K_M Q4_0", NPU, None, "Q4_0", "HTP0", id="npu"),
        pytest.param("Q8_0 Q4_K_M", NPU, None, "Q8_0", "HTP0", id="npu without Q4_0"),
        pytest.param("IQ4_NL Q4_K_M", NPU, "npu", "IQ4_NL", "HTP0", id="npu asked for"),
        pytest.param("Q8_0 Q4_K_M", NPU, "HTP0", "Q8_0", "HTP0", id="device asked for"),
        pytest.param("Q8_0 Q4_K_M", NPU, "cpu", "Q4_K_M", "the CPU", id="cpu asked for"),
        pytest.param(
            "Q8_0 Q4_K_M", BUNDLES, None, "Q4_K_M", "the CPU", id="npu of another runtime"
        ),
        pytest.param("Q8_0 Q4_K_M", WEAK, None, "Q4_K_M", "the CPU", id="npu slower than cpu"),
        pytest.param("Q6_K Q5_K_M F16", NPU, None, "Q5_K_M", "HTP0", id="npu, none of its own"),
        pytest.param("F16", PLAIN, None, "F16", "the CPU", id="one"),
    ],
)
def test_the_best(
    labels: str, machine: HardwareProfile, compute: str | None, best: str, why: str
) -> None:
    sizes = [(label, GIB) for label in labels.split()]
    found, reason = best_precision(sizes, machine, compute)
    assert found == best and why in reason


def test_what_is_larger_than_all_memory_is_passed_over() -> None:
    sizes = [("Q4_0", 20 * GIB), ("Q2_K", 12 * GIB), ("Q3_K_M", None)]
    label, why = best_precision(sizes[:2], PLAIN, None)
    assert label == "Q2_K" and "16.0 GiB of memory" in why
    assert best_precision(sizes, PLAIN, None)[0] == "Q3_K_M", "what is not known may fit"
    assert best_precision(sizes[:1], PLAIN, None)[0] == "Q4_0", "there is no other"
