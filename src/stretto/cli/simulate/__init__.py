"""`stretto simulate ...`: one module per command, assembled in `commands.py`. `stretto.simulator` does the rest."""
