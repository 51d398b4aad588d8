"""The command line: `stretto run`, `explain`, `nexmark` and `demo`.

`program` has the commands with their options and help, each other module the body of one of them; `progress` draws, and
`loading` finds an app by its name. It knows everything below it, and nothing imports it.
"""

from stretto.cli.program import main

__all__ = ["main"]
