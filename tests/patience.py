"""How long a test waits for another process before it calls it stuck."""

import os


def patience(seconds: float) -> float:
    """So long, if a core is free; with others at work as much longer as a process gets less of a core.

    A limit ends what hangs. On a busy machine a clock alone would end what is only slow.
    """
    waiting = os.getloadavg()[0] / (os.cpu_count() or 1) if hasattr(os, "getloadavg") else 0.0
    return seconds * (1 + waiting)
