"""Whether a bundle can run here, settled before anything of it is loaded."""

from pathlib import Path

from geniex_catalogue.errors import BundleError
from geniex_runtimes.errors import BundleTargetError
from geniex_runtimes.qairt.bundle import Bundle
from geniex_runtimes.qairt.context_header import ContextHeader, read_context_header
from geniex_runtimes.qairt.device import QairtDevice
from geniex_runtimes.qairt.inspection import BinaryFacts, GraphFacts, inspect

_AGAIN = "pull or import the bundle again: the end of the file did not arrive"
_IDS, _MASK, _LOGITS = "input_ids", "attention_mask", "logits"


def verify(bundle: Bundle, device: QairtDevice) -> tuple[BinaryFacts | None, ...]:
    """What the shards hold, for a bundle that is whole and fits this device.

    Raises BundleError for a shard that is truncated or no context binary, or does not fit the
    JSON files beside it, and BundleTargetError for a bundle that needs something else than is
    here. The shards are looked at in a child process. None stands for a shard whose form is not
    known here: the worker then finds out.
    """
    if not device.present:
        raise BundleTargetError(
            bundle.folder, f"the Hexagon NPU of a Snapdragon{_of(bundle)}", device.text
        )
    for shard in bundle.shards:
        _check_header(shard, bundle, device)
    _check_version(bundle.shards[0], bundle.qairt_version, device)
    facts = inspect(bundle.shards, device.libraries)
    known = [one for one in facts if one is not None]
    for binary in known:
        _check_version(binary.path, binary.build, device)
        _check_arch(binary, bundle)
    _check_device(bundle, device, known)
    if len(known) == len(facts):
        _check_graphs(bundle, known)
    return facts


def check_whole(shard: Path) -> ContextHeader | None:
    """The header of a shard; None for a form that is not known. Raises BundleError if truncated."""
    try:
        header = read_context_header(shard)
    except OSError as exc:
        raise BundleError(shard, f"cannot be read: {exc.strerror or exc}") from exc
    if header is not None and header.truncated:
        raise BundleError(
            shard,
            f"is truncated: it has {header.size} of {header.stated_size} bytes",
            hint=_AGAIN,
        )
    return header


def _check_header(shard: Path, bundle: Bundle, device: QairtDevice) -> None:
    header = check_whole(shard)
    if header is not None and header.shares_weights and device.simulator:
        raise BundleTargetError(
            shard,
            f"the Hexagon NPU of a Snapdragon{_of(bundle)}, since its graphs share their weights",
            f"{device.text}, which cannot load shared weights",
            hint="run it on a Snapdragon; bundles compiled without weight sharing run here too",
        )


def _of(bundle: Bundle) -> str:
    return f" (HTP v{bundle.htp_arch})" if bundle.htp_arch else ""


def _check_version(shard: Path, needed: str | None, device: QairtDevice) -> None:
    if needed is None or _minor(needed) <= _minor(device.qairt_version):
        return
    raise BundleTargetError(
        shard,
        f"QAIRT {needed} or newer",
        device.text,
        hint="update geniex with its extra `qairt`, or get a bundle of an older release",
    )


def _minor(version: str) -> tuple[int, ...]:
    """Major and minor; patches read each other's bundles."""
    return tuple(int(part) if part.isdecimal() else 0 for part in version.split(".")[:2])


def _check_arch(binary: BinaryFacts, bundle: Bundle) -> None:
    """The binaries and the settings beside them have to be for one Hexagon."""
    settings, compiled = bundle.htp_arch, binary.htp_arch
    if settings is None or compiled is None or settings == compiled:
        return
    raise BundleError(
        binary.path,
        f"is compiled for HTP v{compiled}, and the settings beside it are for v{settings}",
        hint="files of two bundles are mixed: pull or import the bundle again",
    )


def _check_device(bundle: Bundle, device: QairtDevice, known: list[BinaryFacts]) -> None:
    """The Hexagon has to be the one that it was compiled for; the simulator is all of them."""
    compiled = next((one.htp_arch for one in known if one.htp_arch is not None), None)
    needed = compiled if compiled is not None else bundle.htp_arch
    if device.simulator or needed is None:
        return
    other = device.htp_arch is not None and device.htp_arch != needed
    if not other and needed in device.architectures:
        return
    drives = ", ".join(f"v{arch}" for arch in sorted(device.architectures))
    raise BundleTargetError(
        bundle.shards[0],
        f"HTP v{needed}" + (f", such as that of {bundle.chipset}" if bundle.chipset else ""),
        device.text if other else f"{device.text}, whose libraries drive {drives}",
    )


def _check_graphs(bundle: Bundle, binaries: list[BinaryFacts]) -> None:
    """What the graphs take and give has to be what genie_config.json says."""
    graphs = [graph for binary in binaries for graph in binary.graphs]
    first, last = binaries[0], binaries[-1]
    if not graphs:
        raise BundleError(first.path, "holds no graph")
    if bundle.vision and not any(_shape(graph, _IDS) for graph in first.graphs):
        raise BundleTargetError(
            first.path,
            "a runtime for images: it takes embeddings instead of text",
            "a runtime for text alone",
            hint="pull a bundle of a text model",
        )
    lengths = {shape[-1] for graph in graphs if (shape := _shape(graph, _MASK))}
    if lengths and bundle.context_length not in lengths:
        raise BundleError(
            first.path,
            f"is compiled for a context of {_listed(lengths)} tokens, and genie_config.json says "
            f"{bundle.context_length}",
        )
    sizes = {shape[-1] for graph in last.graphs if (shape := _shape(graph, _LOGITS))}
    if sizes and sizes != {bundle.vocab_size}:
        raise BundleError(
            last.path,
            f"gives logits of {_listed(sizes)} tokens, and genie_config.json says "
            f"{bundle.vocab_size}",
        )


def _shape(graph: GraphFacts, name: str) -> tuple[int, ...]:
    """The shape of an input or output; empty where the graph has none of that name."""
    for tensor in (*graph.inputs, *graph.outputs):
        if tensor.name == name:
            return tensor.shape
    return ()


def _listed(numbers: set[int]) -> str:
    return " or ".join(map(str, sorted(numbers)))
