"""`python -m ci.qairt_bundles.compiling JOB`: quantised ONNX graphs -> context binaries.

Runs in a process of its own: the libraries may end it. JOB is a JSON object:
`graphs` {name: ONNX file}, `arch`, `soc`, `weight_sharing`, `out`, `scratch`.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

# HTP architecture -> a SoC that has it, by the number that the libraries know it by
SOCS = {68: 35, 69: 36, 73: 60, 75: 57, 79: 69, 81: 88}
_ROOT = Path(__file__).resolve().parents[2]


class CompileError(Exception):
    """Raised when the libraries do not compile a graph; the message is what they wrote."""


def compile_context(
    graphs: Mapping[str, Path], arch: int, out: Path, scratch: Path, *, weight_sharing: bool = False
) -> None:
    """Compile graphs into one context binary, in a child process. Raises CompileError."""
    job = {
        "graphs": {name: str(path) for name, path in graphs.items()},
        "arch": arch,
        "soc": SOCS[arch],
        "weight_sharing": weight_sharing,
        "out": str(out),
        "scratch": str(scratch),
    }
    done = subprocess.run(
        [sys.executable, "-m", "ci.qairt_bundles.compiling", json.dumps(job)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode or not out.exists():
        raise CompileError(f"exit code {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")


def to_dlc(model: Path, scratch: Path) -> Path:
    """The graph in the libraries' own form; made once for all architectures."""
    import onnxruntime
    import onnxruntime_qnn

    out = scratch / f"{hashlib.sha256(model.read_bytes()).hexdigest()[:24]}.dlc"
    if out.exists():
        return out
    provider = onnxruntime_qnn.get_ep_name()
    found = [one for one in onnxruntime.get_ep_devices() if one.ep_name == provider]
    if not found:
        onnxruntime.register_execution_provider_library(
            provider, onnxruntime_qnn.get_library_path()
        )
        found = [one for one in onnxruntime.get_ep_devices() if one.ep_name == provider]
    folder = scratch / f"dump-{os.getpid()}-{out.stem}"
    folder.mkdir(parents=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices(
        found[:1],
        {"backend_type": "ir", "dump_qnn_ir_dlc": "1", "dump_qnn_ir_dlc_dir": str(folder)},
    )
    onnxruntime.InferenceSession(str(model), options)
    (dumped,) = folder.glob("*.dlc")
    dumped.replace(out)
    folder.rmdir()
    return out


def main() -> None:
    """Do one job."""
    import onnxruntime_qnn

    from ci.qairt_bundles.qnn_api import Compiler

    job = json.loads(sys.argv[1])
    scratch = Path(job["scratch"])
    scratch.mkdir(parents=True, exist_ok=True)
    dlcs = {name: to_dlc(Path(path), scratch) for name, path in job["graphs"].items()}
    compiler = Compiler(Path(onnxruntime_qnn.LIB_DIR_FULL_PATH), job["arch"], job["soc"])
    blob = compiler.compile(dlcs, job["weight_sharing"])
    part = Path(f"{job['out']}.{os.getpid()}")
    part.write_bytes(blob)
    part.replace(job["out"])
    # the libraries' own clearing up at exit may fail, and nothing is left to clear
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
