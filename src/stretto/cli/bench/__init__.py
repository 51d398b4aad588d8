"""`stretto bench ...`: a module per measurement, assembled in `commands.py`. The measuring is `stretto.bench`."""
