"""The limit of open descriptors of a process: sockets and files share it."""

from __future__ import annotations

import logging
import resource

log = logging.getLogger("stretto.descriptors")

DESCRIPTORS_MAX = 65_536
"""The limit is not raised beyond this: some libraries walk through all descriptors up to the limit."""


def raise_descriptor_limit() -> int:
    """Raises this process's limit of open descriptors as far as its hard limit allows, and returns the limit.

    The usual soft limit of 1,024 is an old default. Java raises it in the same way. The limit is that of the process:
    Spark's Python daemon keeps its own, and so do the Python processes of other tasks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        log.warning("the limit of open descriptors stays at %d: %s", soft, error)
        return soft
    return wanted
