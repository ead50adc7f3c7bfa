"""The files that make a folder, or an archive, a compiled bundle for the Snapdragon NPU."""

from collections.abc import Collection

BUNDLE_FACTS = "metadata.json"
BUNDLE_CONFIG = "genie_config.json"


def are_bundle(names: Collection[str]) -> bool:
    """Whether files of these names are a bundle, whole or not.

    Many things are called metadata.json: it takes a context binary beside it.
    """
    binaries = any(name.endswith(".bin") for name in names)
    return BUNDLE_CONFIG in names or (BUNDLE_FACTS in names and binaries)
