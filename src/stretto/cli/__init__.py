"""The command line: `stretto run`, `serve`, `explain`, `sql`, `nexmark`, `demo`, `state`, `bench` and `simulate`.

`program` declares the commands with their options and help; the other modules implement them. `progress` draws live
progress, and `loading` finds an app by its name. The room may import every other room; no other room imports it.
"""

from stretto.cli.program import main

__all__ = ["main"]
