"""The packages that make test bundles of the `qairt` runtime, looked for before they are used."""

import importlib.util
import sys

from geniex_catalogue.extras import EXTRAS

# module -> what installs it
_NEEDED = {
    "onnx": "onnx>=1.20",
    **{
        module: next(one for one in EXTRAS["qairt"] if one.startswith(module.replace("_", "-")))
        for module in ("onnxruntime_qnn", "tokenizers")
    },
}


class MissingPackagesError(Exception):
    """Raised where a bundle cannot be made; the text says what to run."""


def require_packages() -> None:
    """Raise MissingPackagesError where a package is missing from the Python that runs."""
    missing = [name for module, name in _NEEDED.items() if not importlib.util.find_spec(module)]
    if missing:
        python = f'"{sys.executable}"' if " " in sys.executable else sys.executable
        packages = " ".join(f'"{name}"' for name in missing)
        raise MissingPackagesError(
            f"test bundles are made with packages that are not installed: "
            f"run `{python} -m pip install {packages}`"
        )
