"""`python -m ci.qairt_bundles --out DIR`: make test bundles, as folders and zips."""

import argparse
import shutil
from pathlib import Path

from ci.qairt_bundles.compiling import SOCS
from ci.qairt_bundles.making import Maker, Variant


def main() -> None:
    """Make what was asked for, and say where it is."""
    parser = argparse.ArgumentParser(prog="ci.qairt_bundles", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--arch", type=int, nargs="+", default=[73], choices=sorted(SOCS))
    parser.add_argument("--parts", type=int, nargs="+", default=[1], choices=(1, 2))
    parser.add_argument("--context", type=int, nargs="+", default=[64])
    parser.add_argument("--weight-sharing", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    maker = Maker()
    for arch in args.arch:
        for parts in args.parts:
            variant = Variant(arch, parts, tuple(args.context), args.weight_sharing)
            folder = args.out / variant.name
            shutil.copytree(maker.folder_of(variant), folder, dirs_exist_ok=True)
            shutil.copy(maker.zip_of(variant), args.out)
            print(folder)


if __name__ == "__main__":
    main()
