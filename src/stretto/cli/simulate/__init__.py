"""`stretto simulate ...`: one module per experiment, assembled in `commands.py`. The rest is `stretto.simulator`."""
