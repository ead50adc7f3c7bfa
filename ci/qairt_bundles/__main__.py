"""`python -m ci.qairt_bundles --out DIR`: make test bundles, as folders and zips."""

import argparse
import shutil
import sys
from pathlib import Path

from ci.bundle_packages import MissingPackagesError, require_packages
from ci.qairt_bundles.compiling import SOCS


def main() -> int:
    """Make what was asked for, say where it is, and return the exit code."""
    parser = argparse.ArgumentParser(prog="ci.qairt_bundles", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--arch", type=int, nargs="+", default=[73], choices=sorted(SOCS))
    parser.add_argument("--parts", type=int, nargs="+", default=[1], choices=(1, 2))
    parser.add_argument("--context", type=int, nargs="+", default=[64])
    parser.add_argument("--weight-sharing", action="store_true")
    args = parser.parse_args()
    try:
        require_packages()
    except MissingPackagesError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    from ci.qairt_bundles.making import Maker, Variant

    args.out.mkdir(parents=True, exist_ok=True)
    maker = Maker()
    for arch in args.arch:
        for parts in args.parts:
            variant = Variant(arch, parts, tuple(args.context), args.weight_sharing)
            folder = args.out / variant.name
            shutil.copytree(maker.folder_of(variant), folder, dirs_exist_ok=True)
            shutil.copy(maker.zip_of(variant), args.out)
            print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
