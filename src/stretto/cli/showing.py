"""What commands do with the page of their cluster: print its address, keep it open, and write it as a file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from stretto.cli.reporting import note
from stretto.runtime.cluster import Cluster

POLL_S = 0.1


@contextmanager
def shown(cluster: Cluster, page: bool | str, report: str | None, stay: bool = False) -> Iterator[None]:
    """Prints the address of the page of a cluster, with its token, once. At the end of the block, also of one that
    fails, the report is written; with `stay`, the page of one that succeeds is open until Ctrl-C."""
    if page:
        note(f"The page: {cluster.page.url}")
    try:
        yield
    finally:
        if report is not None:
            cluster.write_report(report)
            note(f"The report is in {report}")
    if page and stay:
        _stay(cluster)


def _stay(cluster: Cluster) -> None:
    note(f"The page stays open at {cluster.page.address} until Ctrl-C.")
    try:
        while True:
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        note("The page is closed.")
