"""Our own wheel of llama-cpp-python: built once per machine with the right flags, then kept.

pip's cache does not look at CMAKE_ARGS: a wheel that was compiled earlier with other flags would be
taken without a word. So the wheels lie in a folder of our own, one per version, flags and CPU.
"""

import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

# OpenMP, since the threads of llama.cpp's own pool spin without an end at barriers: beside two busy
# threads of another program a token took 3 s in the pool and 0.03 s in OpenMP
# no multimodal library: this product is text only
BASE_FLAGS = ("-DGGML_OPENMP=ON", "-DLLAVA_BUILD=OFF")
# virtual machines announce AMX and then die on it with an illegal instruction
NO_AMX = ("-mno-amx-tile", "-mno-amx-int8", "-mno-amx-bf16")
# what -march=native looks at; other words in the list come and go with the kernel
CPU_WORDS = re.compile(r"(avx|s?sse|fma|f16c|bmi|vaes|asimd|sve|sme(?!p)|i8mm|bf16|fphp)")


class BuildError(Exception):
    """Raised when the machine lacks what a build needs; the text says what to install."""


def cache_root(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's cache folder for things that are built or fetched once per machine."""
    if sys.platform == "win32":
        base = Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "geniex-build"


def c_compiler(environ: Mapping[str, str] = os.environ) -> str | None:
    """The C compiler that CMake will take on Linux and macOS, or None."""
    asked = environ.get("CC")
    if asked:
        return shutil.which(shlex.split(asked)[0])
    return next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)


def has_visual_studio(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether Visual Studio's C++ tools are on this Windows."""
    programs = environ.get("ProgramFiles(x86)", r"C:\Program Files (x86)")
    vswhere = Path(programs) / "Microsoft Visual Studio" / "Installer" / "vswhere.exe"
    if not vswhere.is_file():
        return False
    asked = [str(vswhere), "-products", "*", "-requires", "Microsoft.VisualStudio.Workload.VCTools"]
    asked += ["Microsoft.VisualStudio.Workload.NativeDesktop", "-requiresAny"]
    found = subprocess.run(
        [*asked, "-property", "installationPath"], capture_output=True, text=True, check=False
    )
    return bool(found.stdout.strip())


def require_compiler(environ: Mapping[str, str] = os.environ) -> None:
    """Raise BuildError, with the command that helps, where there is no C++ compiler."""
    if sys.platform == "win32":
        if shutil.which("cl") or environ.get("CC") or has_visual_studio(environ):
            return
        advice = (
            "winget install Microsoft.VisualStudio.2022.BuildTools --override "
            '"--wait --passive --add Microsoft.VisualStudio.Workload.VCTools --includeRecommended"'
        )
    else:
        names = (
            [shlex.split(environ["CXX"])[0]] if environ.get("CXX") else ["c++", "g++", "clang++"]
        )
        if c_compiler(environ) and any(shutil.which(name) for name in names):
            return
        advice = "xcode-select --install" if sys.platform == "darwin" else linux_advice()
    raise BuildError(f"llama.cpp has to be compiled, and there is no C++ compiler; run: {advice}")


def linux_advice() -> str:
    """The command that installs a C++ compiler on this Linux."""
    commands = {
        "apt-get": "sudo apt-get install build-essential",
        "dnf": "sudo dnf install gcc gcc-c++",
        "pacman": "sudo pacman -S base-devel",
        "zypper": "sudo zypper install gcc gcc-c++",
        "apk": "sudo apk add build-base linux-headers",
    }
    return next((text for tool, text in commands.items() if shutil.which(tool)), "install gcc, g++")


def accepts(compiler: str, flags: tuple[str, ...]) -> bool:
    """Whether a compiler knows these flags (ARM compilers and old ones refuse -mno-amx-*)."""
    command = [compiler, "-Werror", *flags, "-x", "c", "-E", "-"]
    return subprocess.run(command, input=b"", capture_output=True, check=False).returncode == 0


def cmake_args(environ: Mapping[str, str] = os.environ) -> str:
    """The CMAKE_ARGS of the build: ours, then the user's own, which so have the last word."""
    flags = list(BASE_FLAGS)
    compiler = c_compiler(environ) if sys.platform != "win32" else None
    if compiler and accepts(compiler, NO_AMX):
        flags += [f"-DCMAKE_{language}_FLAGS='{' '.join(NO_AMX)}'" for language in ("C", "CXX")]
    return " ".join([*flags, environ.get("CMAKE_ARGS", "")]).strip()


def cpu_fingerprint() -> str:
    """What the compiler may assume of this CPU; a home folder can move to another machine."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    line = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    words = line[1].split() if line else [platform.processor()]
    return " ".join(sorted({word for word in words if CPU_WORDS.match(word)}))


def wheel_folder(version: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Where the wheel of this version, these flags and this machine lies, built or not."""
    facts = "\n".join((cmake_args(environ), cpu_fingerprint()))
    digest = hashlib.sha256(facts.encode()).hexdigest()[:12]
    machine = sysconfig.get_platform()
    return cache_root(environ) / "wheels" / f"llama-cpp-python-{version}-{digest}-{machine}"


def find_wheel(folder: Path) -> Path | None:
    """The wheel in a folder, or None."""
    return next(iter(sorted(folder.glob("llama_cpp_python-*.whl"))), None)


def build_command(python: Path, version: str, folder: Path) -> list[str]:
    """The command that compiles the wheel into a folder."""
    command = [str(python), "-m", "pip", "wheel", "--no-deps", "--no-cache-dir"]
    command += ["--no-binary", "llama-cpp-python", "--wheel-dir", str(folder)]
    return [*command, f"llama-cpp-python=={version}"]


def build_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of the build: our flags, and every core."""
    jobs = environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(os.cpu_count() or 1)
    own = {"CMAKE_ARGS": cmake_args(environ), "CMAKE_BUILD_PARALLEL_LEVEL": jobs}
    return {**environ, **own}


def ensure_wheel(python: Path, version: str) -> Path:
    """The wheel of llama-cpp-python for this machine; compiles it when it is not there yet.

    Raises BuildError when there is no compiler, or when the build fails.
    """
    folder = wheel_folder(version)
    found = find_wheel(folder)
    if found:
        return found
    require_compiler()
    environment = build_environment()
    print(f"compiling llama.cpp with CMAKE_ARGS={environment['CMAKE_ARGS']}")
    print("this takes about ten minutes on two cores, once per machine", flush=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as work:
        command = build_command(python, version, Path(work))
        if subprocess.run(command, env=environment, check=False).returncode != 0:
            raise BuildError(f"llama-cpp-python {version} did not compile; pip's output is above")
        built = find_wheel(Path(work))
        if built is None:
            raise BuildError(f"pip built no wheel of llama-cpp-python {version}")
        folder.mkdir(exist_ok=True)
        # one rename, so that a broken-off build leaves nothing that looks like a wheel
        return built.replace(folder / built.name)
