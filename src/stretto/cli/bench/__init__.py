"""`stretto bench ...`: one module per command, assembled in `commands.py`. `stretto.bench` does the measuring."""
