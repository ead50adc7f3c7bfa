"""What bundles can run on here: the installed QAIRT, and the Hexagon or the simulator of one."""

import importlib.util
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from geniex_catalogue.extras import install
from geniex_runtimes.errors import RuntimeNotInstalledError
from geniex_runtimes.hardware import chipset
from geniex_runtimes.hardware.sources import Sources, this_machine
from geniex_runtimes.options import NPU, SIMULATOR

PACKAGE = "onnxruntime_qnn"
_STUB = re.compile(r"(?:lib)?QnnHtpV(\d+)Stub\.(?:dll|so)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class QairtDevice:
    """The installed QAIRT and what it drives.

    `architectures` are the HTPs that the installed libraries can drive, empty for the simulator,
    which runs what is compiled for any. `htp_arch` is that of this machine, None where unknown.
    `present` is False where there are libraries for a Hexagon, and no SoC of Qualcomm's.
    """

    libraries: Path
    qairt_version: str
    simulator: bool
    architectures: frozenset[int] = frozenset()
    chipset: str | None = None
    htp_arch: int | None = None
    system: str = "an unknown system"
    present: bool = True

    @property
    def name(self) -> str:
        """The device's name."""
        return SIMULATOR if self.simulator else NPU

    @property
    def text(self) -> str:
        """What is here, in words."""
        if self.simulator:
            return f"the {SIMULATOR} of QAIRT {self.qairt_version} on {self.system}"
        if not self.present:
            return f"no Snapdragon but {self.system}"
        arch = f"HTP v{self.htp_arch}" if self.htp_arch else "an HTP of unknown architecture"
        chip = f"{self.chipset or 'an unknown chipset'} ({arch})"
        return f"{chip} with QAIRT {self.qairt_version} on {self.system}"


def this_device(sources: Sources | None = None) -> QairtDevice:
    """What is here. Raises RuntimeNotInstalledError where the libraries are not."""
    libraries, version = installed_libraries()
    sources = sources or this_machine()
    architectures = driven_architectures(libraries)
    soc = chipset.probe(sources)[0] if architectures else None
    return QairtDevice(
        libraries=libraries,
        qairt_version=version,
        simulator=not architectures,
        architectures=architectures,
        chipset=soc.name if soc else None,
        htp_arch=soc.htp_arch if soc else None,
        system=f"{platform.system()} {platform.machine()}",
        present=not architectures or chipset.is_qualcomm(sources),
    )


def installed_libraries() -> tuple[Path, str]:
    """The folder of Qualcomm's libraries, and their QAIRT version, such as 2.51.0.

    Loads nothing native. Raises RuntimeNotInstalledError.
    """
    if importlib.util.find_spec(PACKAGE) is None:
        raise RuntimeNotInstalledError(
            "the package `onnxruntime-qnn` is not installed", hint=install("qairt")
        )
    try:
        import onnxruntime_qnn
    except (ImportError, OSError) as exc:
        raise RuntimeNotInstalledError(
            f"the package `onnxruntime-qnn` cannot be used: {exc}", hint=install("qairt")
        ) from exc
    return Path(
        onnxruntime_qnn.LIB_DIR_FULL_PATH
    ), onnxruntime_qnn.build_and_package_info.qnn_version


def driven_architectures(libraries: Path) -> frozenset[int]:
    """The HTPs that libraries can drive: for each there is a stub, and none in the simulator's."""
    found = (_STUB.fullmatch(path.name) for path in libraries.iterdir())
    return frozenset(int(match.group(1)) for match in found if match)
