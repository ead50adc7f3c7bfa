"""Show, in ten minutes, what the qairt runtime does on this machine; `docs/snapdragon.md`.

`python ci/snapdragon_check.py [MODEL]`, with the Python that geniex and its extra `qairt` are
installed in. On a Snapdragon MODEL is pulled from AI Hub. On x86-64 the tiny test bundle is made
and runs on Qualcomm's simulator: the report says so, and its speeds mean nothing.
"""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ci.bundle_packages import MissingPackagesError, require_packages
from ci.snapdragon import served, terminal
from ci.snapdragon.report import FailedError, Report
from ci.snapdragon.terminal import Geniex

DEFAULT_MODEL = "ai-hub-models/Qwen3-4B"
TEST_MODEL = "local/tiny-talk"
SERVED = (
    ("server: an answer, whole and streamed", served.answers),
    ("server: stop strings", served.stops),
    ("server: seeds", served.seeds_repeat),
    ("server: a client that leaves", served.cancels),
    ("server: a worker that is killed", served.survives),
    ("server: its end leaves nothing", served.leaves_nothing),
)


def main() -> int:
    """Run every step, write the report, and return 1 if any step failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", nargs="?", help=f"on a device: [{DEFAULT_MODEL}]")
    parser.add_argument("--bundle", type=Path, help="a bundle to import, in the place of a pull")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report to FILE, too")
    args = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as scratch:
        check(report, args.model, args.bundle, Path(scratch))
    # what a console cannot show is no reason to fail
    print(report.text().encode("ascii", "backslashreplace").decode())
    if args.json is not None:
        args.json.write_text(report.as_json() + "\n", encoding="utf-8")
    return 0 if report.passed else 1


def check(report: Report, model: str | None, bundle: Path | None, scratch: Path) -> None:
    """Run the steps; those that others stand on end it where they fail."""

    def look() -> dict[str, object]:
        report.machine = terminal.machine(Geniex(""))
        return terminal.is_there(Geniex(""), report.machine)

    if not report.run("a device for bundles", look):
        return
    simulated = bool(report.machine["simulated"])
    made = simulated and bundle is None and model is None
    imported = made or bundle is not None
    # an import goes to a folder of its own, a pull of gigabytes where it can be used afterwards
    name = model or (TEST_MODEL if imported else DEFAULT_MODEL)
    geniex = Geniex(name, scratch if imported else None)

    def pull() -> dict[str, object]:
        return terminal.pulled(geniex, test_bundle() if made else bundle)

    if not report.run("pull", pull):
        return
    report.run("an answer, twice", partial(terminal.answers, geniex))
    report.run("both engines agree", partial(terminal.engines_agree, geniex))
    report.run("what is ignored", partial(terminal.what_is_ignored_is_said, geniex))
    report.run("--require npu", partial(terminal.requires_the_npu, geniex, simulated))
    try:
        with served.serving(geniex) as server:
            for title, step in SERVED:
                report.run(title, partial(step, server))
    except FailedError as exc:
        text = str(exc)

        def failed() -> dict[str, object]:
            raise FailedError(text)

        report.run("server", failed)


def test_bundle() -> Path:
    """The tiny bundle of the tests, made here once. Raises FailedError where it cannot be."""
    # onnx, which only developers have
    try:
        require_packages()
    except MissingPackagesError as exc:
        raise FailedError(str(exc)) from exc
    from ci.qairt_bundles.making import Maker, Variant

    return Maker().zip_of(Variant(contexts=(512,)))


if __name__ == "__main__":
    sys.exit(main())
