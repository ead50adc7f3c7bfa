"""Exports: every step by its id, none done twice, every failure in plain words."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from geniex_catalogue.errors import (
    ChipsetError,
    GenieXError,
    HubAuthError,
    HubError,
    HubNotFoundError,
    HubOfflineError,
    HubRateLimitError,
    UsageError,
)
from geniex_catalogue.hubs.chipsets import KnownChipset
from geniex_catalogue.hubs.export import ExportWish, export
from geniex_catalogue.hubs.export_source import read_source
from geniex_catalogue.hubs.workbench import Workbench
from tests import workbench as double
from tests.workbench import Device, FakeClient

X_ELITE = KnownChipset("qualcomm-snapdragon-x-elite", htp_arch=73, soc=60)
BINARIES = ["tiny_part_1_of_2.bin", "tiny_part_2_of_2.bin"]
CONFIG = {"dialog": {"engine": {"model": {"binary": {"ctx-bins": BINARIES}}}}}
GRAPHS = [f"{kind}_cl64_{part}_of_2" for part in (1, 2) for kind in ("prompt_ar16", "token_ar1")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model in two parts: files, and a folder with the weights beside the graph."""
    made = tmp_path / "tiny"
    made.mkdir()
    for name in GRAPHS[:3]:
        (made / f"{name}.onnx").write_bytes(name.encode())
    inner = made / f"{GRAPHS[3]}.onnx"
    inner.mkdir()
    (inner / "model.onnx").write_bytes(b"graph")
    (inner / "model.data").write_bytes(b"weights")
    (made / "genie_config.json").write_text(json.dumps(CONFIG))
    (made / "tokenizer.json").write_text("{}")
    (made / "metadata.json").write_text('{"precision": "w4a16"}')
    settings = {"devices": [{"soc_model": 57, "dsp_arch": "v75", "cores": []}]}
    (made / "htp_backend_ext_config.json").write_text(json.dumps(settings))
    (made / ".DS_Store").write_text("x")
    return made


@pytest.fixture
def client() -> FakeClient:
    return FakeClient([Device("X Elite CRD", [f"chipset:{X_ELITE.name}", "os:windows"])])


class Exporting:
    """Runs exports of one folder, and keeps what they tell."""

    def __init__(self, folder: Path, client: FakeClient) -> None:
        self.folder = folder
        self.client = client
        self.target = folder.parent / "out"
        self.told: list[str] = []

    def __call__(self, chipset: KnownChipset = X_ELITE, options: str = "") -> Path:
        return export(
            read_source(self.folder),
            chipset,
            self.target,
            Workbench(self.client),
            self.folder.parent / "data",
            ExportWish(compile_options=options, poll=0.0),
            self.told.append,
        )


@pytest.fixture
def exporting(folder: Path, client: FakeClient) -> Exporting:
    return Exporting(folder, client)


def test_a_bundle_comes_out(exporting: Exporting, capsys: pytest.CaptureFixture[str]) -> None:
    made = exporting(options="--extra 1")
    assert sorted(path.name for path in made.iterdir()) == [
        "genie_config.json",
        "htp_backend_ext_config.json",
        "metadata.json",
        *BINARIES,
        "tokenizer.json",
    ]
    assert (made / BINARIES[1]).read_bytes() == (
        b"bin:dlc:prompt_ar16_cl64_2_of_2+dlc:weightsgraph"
    )
    settings = json.loads((made / "htp_backend_ext_config.json").read_text())
    assert settings["devices"][0] == {"soc_model": 60, "dsp_arch": "v73", "cores": []}
    compiled = [job for job in exporting.client.jobs.values() if "qnn_dlc" in job.options]
    assert [job.name for job in compiled] == sorted(GRAPHS, key=lambda name: name[-6:])
    assert compiled[0].options == (
        f"--target_runtime qnn_dlc --qnn_options context_enable_graphs={GRAPHS[0]} --extra 1"
    )
    assert f"{GRAPHS[0]}: optimizing model" in exporting.told
    assert f"{BINARIES[0]}: downloading" in exporting.told
    assert not list(exporting.folder.parent.glob("out.*"))
    assert not list((exporting.folder.parent / "data" / "exports").iterdir())
    # what the client prints is no data of ours
    assert capsys.readouterr().out == ""
    assert not exporting.client.verbose


ERRORS = [KeyboardInterrupt(), double.InternalError("a 503")]


@pytest.mark.parametrize("error", ERRORS, ids=["stopped", "failed"])
@pytest.mark.parametrize("let_through", range(3))
@pytest.mark.parametrize(
    "call", ["upload_model", "submit_compile_job", "submit_link_job", "get_job", "get_model"]
)
def test_no_step_is_done_twice(
    exporting: Exporting, call: str, let_through: int, error: BaseException
) -> None:
    """Stopped at some call, the same command ends what was begun."""
    exporting.client.faults[call] = [*[None] * let_through, error]
    if call == "submit_link_job" and let_through == 2:
        exporting.client.faults[call].clear()
    else:
        with pytest.raises((KeyboardInterrupt, HubError)):
            exporting()
    exporting()
    assert len(exporting.client.models) == 4
    assert len(exporting.client.jobs) == 6


def test_a_download_that_broke_goes_on(
    exporting: Exporting, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = double.Model.download
    monkeypatch.setattr(double.Model, "download", _breaks_at(BINARIES[1]))
    with pytest.raises(HubOfflineError):
        exporting()
    monkeypatch.setattr(double.Model, "download", whole)
    exporting.told.clear()
    exporting()
    assert f"{BINARIES[0]}: here already" in exporting.told
    assert f"{BINARIES[1]}: downloading" in exporting.told
    assert len(exporting.client.jobs) == 6


def _breaks_at(binary: str) -> Callable[..., str]:
    whole = double.Model.download

    def download(self: double.Model, filename: str, timeout: int | None = None) -> str:
        if f"{self.name}.bin" == binary:
            raise double.InternalError("Could not connect to Qualcomm AI Hub.")
        return whole(self, filename, timeout)

    return download


def test_a_graph_that_changed_is_compiled_again(exporting: Exporting) -> None:
    exporting.client.faults["submit_link_job"] = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        exporting()
    (exporting.folder / f"{GRAPHS[0]}.onnx").write_bytes(b"another graph")
    made = exporting()
    assert (made / BINARIES[0]).read_bytes().startswith(b"bin:dlc:another graph")
    assert len(exporting.client.models) == 5


def test_a_job_that_fails_is_tried_again(exporting: Exporting) -> None:
    exporting.client.fail = {GRAPHS[1]}
    with pytest.raises(HubError, match=f"could not compile `{GRAPHS[1]}`: bad op") as caught:
        exporting()
    assert "https://workbench.example/jobs/" in str(caught.value.hint)
    exporting.client.fail.clear()
    exporting()
    assert len(exporting.client.models) == 4
    assert len(exporting.client.jobs) == 7


def test_what_the_service_has_forgotten_is_done_again(exporting: Exporting) -> None:
    exporting.client.faults["submit_link_job"] = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        exporting()
    exporting.client.jobs.clear()
    exporting.client.models.clear()
    exporting()
    assert exporting.target.is_dir()


@pytest.mark.parametrize(
    ("raised", "error", "says"),
    [
        (double.UserError("Failed to load client configuration file."), HubAuthError, "configure"),
        (double.APIException("Forbidden", 403), HubAuthError, "API token"),
        (double.APIException("", 401), HubAuthError, "API token"),
        (double.UserError("API authentication failure."), HubAuthError, "sign in"),
        (double.RateLimitedError("slow"), HubRateLimitError, "later"),
        (double.APIException("slow", 429), HubRateLimitError, "slow down"),
        (double.APIException("big", 413), HubError, "more parts"),
        (double.APIException("old", 426), HubError, "pip install -U qai-hub"),
        (double.APIException("gone", 404), HubNotFoundError, "no such thing"),
        (double.APIException("oops", 500), HubError, "has failed"),
        (double.InternalError("Could not connect to it."), HubOfflineError, "reached"),
        (double.InternalError("reported errors."), HubError, "again later"),
        (double.UserError("device is not available."), HubError, "refuses this"),
        (ConnectionError("reset"), HubOfflineError, "reached"),
        (ValueError("odd"), HubError, "ValueError: odd"),
    ],
    ids=str,
)
def test_every_error_is_translated(
    exporting: Exporting, raised: Exception, error: type[GenieXError], says: str
) -> None:
    exporting.client.faults["upload_model"] = [raised]
    with pytest.raises(error) as caught:
        exporting()
    assert type(caught.value) is error
    assert says in f"{caught.value.message} {caught.value.hint}"


def test_a_chipset_that_is_not_hosted(exporting: Exporting) -> None:
    with pytest.raises(ChipsetError, match="no device with the chipset"):
        exporting(KnownChipset("qualcomm-qcs8275"))
    exporting.target.mkdir()
    with pytest.raises(UsageError, match="there already"):
        exporting()


def spoil(name: str, text: str | None) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / name
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)

    return change


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "no config": (spoil("genie_config.json", None), "has no genie_config.json"),
    "no tokenizer": (spoil("tokenizer.json", None), "has no tokenizer.json"),
    "config is no json": (spoil("genie_config.json", "{"), "not JSON"),
    "config without binaries": (spoil("genie_config.json", "{}"), "no list `ctx-bins`"),
    "fewer binaries": (
        spoil("genie_config.json", json.dumps(CONFIG).replace(f', "{BINARIES[1]}"', "")),
        "names 1 context binaries, the graphs are in 2 parts",
    ),
    "a binary twice": (
        spoil("genie_config.json", json.dumps(CONFIG).replace(BINARIES[1], BINARIES[0])),
        "twice",
    ),
    "a binary elsewhere": (
        spoil("genie_config.json", json.dumps(CONFIG).replace(BINARIES[1], "../x.bin")),
        "not allowed",
    ),
    "settings of no npu": (spoil("htp_backend_ext_config.json", "[]"), "no list of `devices`"),
    "a graph missing": (spoil(f"{GRAPHS[2]}.onnx", None), "part 2 of 2 has no graph ar16_cl64"),
    "a graph twice": (spoil(f"{GRAPHS[3]}.aimet.onnx", None), ""),
    "two models": (spoil("token_ar1_cl64_1_of_1.onnx", "x"), "1 and 2 parts"),
    "part 3 of 2": (spoil("token_ar1_cl64_3_of_2.onnx", "x"), "is part 3 of 2"),
}


@pytest.mark.parametrize(("change", "says"), REFUSED.values(), ids=REFUSED)
def test_folders_that_are_refused(folder: Path, change: Callable[[Path], None], says: str) -> None:
    change(folder)
    if not says:
        (folder / f"{GRAPHS[0]}.aimet").mkdir()
        (folder / f"{GRAPHS[0]}.aimet" / "model.onnx").write_text("x")
        says = "are one graph"
    with pytest.raises(GenieXError, match=says):
        read_source(folder)


def test_what_is_no_folder_of_graphs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        read_source(tmp_path / "none")
    with pytest.raises(UsageError, match="no graph of a language model"):
        read_source(tmp_path)
    (tmp_path / "ar16_cl64_1_of_1").mkdir()
    with pytest.raises(UsageError, match=r"exactly one \.onnx"):
        read_source(tmp_path)
