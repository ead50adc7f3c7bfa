"""Listings of files: by name alone, or with the headers of GGUFs."""

from collections.abc import Mapping

from geniex_catalogue.fileset import FileSet, ModelFile, group
from geniex_catalogue.gguf import GGUFHeader, TensorInfo
from geniex_catalogue.names import parse

Facts = Mapping[str, str | int]

MODEL: Facts = {"general.architecture": "llama"}
DRAFT: Facts = {"general.architecture": "gemma4-assistant"}
EAGLE: Facts = {"general.architecture": "eagle3"}
PROJECTOR: Facts = {"general.architecture": "clip", "general.type": "mmproj"}
EMBEDDING: Facts = {"general.architecture": "bert"}
ADAPTER: Facts = {"general.architecture": "llama", "general.type": "adapter"}
HEADS: Facts = {
    "general.architecture": "qwen35",
    "qwen35.block_count": 3,
    "qwen35.nextn_predict_layers": 1,
}


def part(number: int, count: int, facts: Facts | None = None) -> Facts:
    """The facts of one part of a split file."""
    return {**(facts or {}), "split.no": number - 1, "split.count": count}


def header(facts: Facts) -> GGUFHeader:
    """A header with these facts and a few tensors."""
    names = ["token_embd.weight", "blk.0.attn_norm.weight", "blk.2.nextn.eh_proj.weight"]
    if facts.get("split.no"):
        names = [f"blk.{facts['split.no']}.ffn_norm.weight"]
    tensors = tuple(TensorInfo(name, (32,), 0, 0) for name in names)
    return GGUFHeader(3, dict(facts), tensors, None)


def listing(text: str) -> FileSet:
    """The set of the files that the words name."""
    return group(ModelFile(name, 1) for name in text.split())


def with_headers(files: Mapping[str, Facts]) -> FileSet:
    """The set of these files, each with a header of its facts."""
    return group(ModelFile(name, 1, header=header(facts)) for name, facts in files.items())


def choose(files: FileSet, selector: str) -> str:
    """The entry point that `org/repo<selector>` means."""
    ref = parse(f"org/repo{selector}")
    return files.choose(ref.precision, ref.file, ref.name).name


ALL = "X-F16.gguf X-Q2_K.gguf X-Q4_0.gguf X-Q4_K_M.gguf X-Q6_K.gguf X-Q8_0.gguf"
MTP = "X-Q6_K.gguf X-MTP-Q6_K.gguf X-Q4_K_M.gguf"
UNSLOTH = (
    "BF16/X-BF16-00001-of-00002.gguf BF16/X-BF16-00002-of-00002.gguf MTP/mtp-X-Q4_0.gguf "
    "X-UD-Q4_K_XL.gguf X-Q4_K_M.gguf mmproj-F16.gguf mmproj-BF16.gguf mmproj-F32.gguf "
    "imatrix_unsloth.gguf README.md config.json"
)
SPLIT = "X-Q4_0-00001-of-00003.gguf X-Q4_0-00002-of-00003.gguf X-Q4_0-00003-of-00003.gguf"
