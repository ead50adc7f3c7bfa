"""How much memory this program takes just now."""


def resident() -> int:
    """Bytes in memory (RSS) of this process and of those it started: bundles have one each."""
    import psutil

    mine = psutil.Process()
    total = 0
    for process in (mine, *mine.children(recursive=True)):
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:  # ended between the list and the look
            continue
    return total
