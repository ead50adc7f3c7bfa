"""Sizes for a person: one way to write them, everywhere."""


def size_text(size: float) -> str:
    """Bytes in binary units, with one decimal above a KiB."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
