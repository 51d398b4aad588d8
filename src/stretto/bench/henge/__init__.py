"""What the controller of objectives brings on Spark: jobs whose objectives conflict, without it and with it.

`conflict.py`: the jobs and what they promise. `worth.py`: what their results are worth over time, by what has arrived
at the driver. `comparison.py` runs the jobs and checks their rows.
"""
