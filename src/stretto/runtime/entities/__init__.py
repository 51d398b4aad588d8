"""Entities on Spark: their files, their code on its way to workers, their clients in the driver.

The decisions are in `transactions/` and in the parts of the machines (`worker/entities.py`, `worker/doors.py`,
`coordinator/entities.py`); here is what they want done.

Read next: `log_files.py` (the ingress log), `keeping.py` (who writes it), `client.py` (calls of users' threads).
"""
