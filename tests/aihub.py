"""An AI Hub on loopback: a release's documents and zips of bundles, in a bucket of the hub."""

import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

from tests.hubserver import HubServer

QAIRT, GENIE, ONNX = "RUNTIME_GENIEX_QAIRT", "RUNTIME_GENIE", "RUNTIME_ONNX"
X_ELITE = "qualcomm-snapdragon-x-elite"
X2_ELITE = "qualcomm-snapdragon-x2-elite"
_FOLDER = "qai-hub-models"

# name, reference device, further aliases, HTP version, SoC: an excerpt of a release of 2026
CHIPSETS = (
    ("qualcomm-snapdragon-855", "Google Pixel 4", ("sm8150",), 66, 12),
    ("qualcomm-snapdragon-888", "Samsung Galaxy S21", ("sm8350",), 68, 30),
    ("qualcomm-snapdragon-8gen1", "Samsung Galaxy S22 5G", ("sm8450",), 69, 36),
    ("qualcomm-snapdragon-8gen2", "Samsung Galaxy S23", ("sm8550",), 73, 43),
    ("qualcomm-snapdragon-8gen3", "Samsung Galaxy S24", ("sm8650",), 75, 57),
    ("qualcomm-snapdragon-8-elite", "Snapdragon 8 Elite QRD", ("sm8750",), 79, 69),
    ("qualcomm-snapdragon-8-elite-for-galaxy", "Samsung Galaxy S25", ("sm8750-ac",), 79, 69),
    ("qualcomm-snapdragon-8-elite-gen5", "Snapdragon 8 Elite Gen 5 QRD", ("sm8850",), 81, 87),
    (X_ELITE, "Snapdragon X Elite CRD", ("sc8380xp",), 73, 60),
    ("qualcomm-snapdragon-x-plus-8-core", "Snapdragon X Plus 8-Core CRD", ("sc8340xp",), 73, 60),
    (X2_ELITE, "Snapdragon X2 Elite CRD", ("sc8480xp",), 81, 88),
    ("qualcomm-qcs8550-proxy", "QCS8550 (Proxy)", (), 73, 43),
    ("qualcomm-sa8775p", "SA8775P ADP", (), 73, 52),
    ("qualcomm-sa7255p", "SA7255P ADP", (), 75, 67),
    ("qualcomm-qcs8275-proxy", "QCS8275 (Proxy)", ("qcs8275",), 75, 67),
    ("qualcomm-qcs8275", "Dragonwing IQ-8275 EVK", (), 75, 67),
    ("qualcomm-qcs6490", "Dragonwing RB3 Gen 2 Vision Kit", ("qcs6490",), 68, 93),
    ("qualcomm-qcs9075", "Dragonwing IQ-9075 EVK", ("qcs9075",), 73, 77),
)

METADATA = b'{"precision": "w4a16", "genie": {"supports_vision": false}}'
BUNDLE = {
    "metadata.json": METADATA,
    "genie_config.json": b'{"dialog": {}}',
    "tokenizer.json": b'{"model": {}}' * 500,
    "qwen3_4b_part_2_of_2.bin": bytes(range(256)) * 300,
    "qwen3_4b_part_1_of_2.bin": bytes(range(255, -1, -1)) * 400,
}


def platform() -> bytes:
    """The document of chipsets."""
    chipsets = [
        {
            "name": name,
            "aliases": [name, *aliases],
            "htp_version": arch,
            "soc_model": soc,
            "reference_device": device,
            "supports_weight_sharing": True,
        }
        for name, device, aliases, arch, soc in CHIPSETS
    ]
    return _json({"aihm_version": "0.60.0", "chipsets": chipsets})


def model(name: str, ident: str = "", url: str = "", **fields: Any) -> dict[str, Any]:
    """An entry of the index; `fields` are others of it."""
    return {
        "id": ident or re.sub(r"\W", "_", name.lower()),
        "display_name": name,
        "domain": "MODEL_DOMAIN_GENERATIVE_AI",
        "manifest_urls": {"info": "https://example.com/info.json", "release_assets": url},
        "supported_runtimes": [QAIRT, GENIE],
        "supported_chipsets": [X_ELITE],
        "tags": ["MODEL_TAG_LLM"],
    } | fields


def manifest(models: Sequence[Mapping[str, Any]], version: str = "0.60.0") -> bytes:
    """The document of models."""
    return _json({"version": version, "platform_url": "platform.json", "models": list(models)})


def asset(
    chipset: str | None, precision: str = "W4A16", runtime: str = QAIRT, url: str = ""
) -> Any:
    """An entry of a model's assets."""
    given = url or f"https://example.com/{precision}-{chipset}.zip"
    return {
        "chipset": chipset,
        "runtime": runtime,
        "precision": f"PRECISION_{precision}",
        "download_url": given,
        "tool_versions": {"qairt": "2.45.0"},
    }


def assets(*entries: Any) -> bytes:
    """The document of a model's assets."""
    return _json({"aihm_version": "0.60.0", "assets": list(entries)})


def zipped(files: Mapping[str, bytes] = BUNDLE, stored: str = ".bin", top: str = "b/") -> bytes:
    """A zip of a bundle; files whose names end with `stored` are not compressed."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            method = zipfile.ZIP_STORED if name.endswith(stored) else zipfile.ZIP_DEFLATED
            archive.writestr(top + name, content, method)
    return data.getvalue()


class Bucket:
    """What a store of files has, each file at an address of its own."""

    def __init__(self, hub: HubServer) -> None:
        self.files = hub.add("bucket", {}).files
        self.hub = hub
        self.base = f"{hub.cdn}/x/bucket/{_FOLDER}"

    def put(self, path: str, data: bytes) -> str:
        """Put a file there, and give its address."""
        self.files[f"{_FOLDER}/{path}"] = data
        return f"{self.base}/{path}"

    def release(self, *models: Mapping[str, Any], name: str = "latest") -> None:
        """Put a release's documents there."""
        self.put(f"releases/{name}/manifest.json", manifest(models))
        self.put(f"releases/{name}/platform.json", platform())

    def qwen(self, data: bytes | None = None, **fields: Any) -> None:
        """Put a release there with one model, `Qwen3-4B`, as a bundle for the X Elite."""
        path = "models/qwen3_4b/releases/v0.60.0/qwen3_4b-geniex_qairt-w4a16-x_elite.zip"
        url = self.put(path, zipped() if data is None else data)
        listed = self.put("models/qwen3_4b/assets.json", assets(asset(X_ELITE, url=url)))
        self.release(model("Qwen3-4B", url=listed, **fields))

    def asked(self, end: str) -> int:
        """How many requests there were for files whose address ends so."""
        return sum(seen.path.endswith(end) for seen in self.hub.seen)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
