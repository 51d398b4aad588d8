"""A worker's part in handing a running job over to its next attempt: `givers.py` on the side of the old attempt,
`takers.py` on that of the new one."""
