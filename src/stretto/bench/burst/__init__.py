"""What a burst does to NEXMark queries, with and without transient workers.

`queries.py`: queries whose rows take time. `load.py`: the stream with its burst. `phases.py`: latency before, during
and after it. `measuring.py` runs a query once, by one of the approaches, and `comparing.py` compares them with each
other and with Spark SQL. `vanishing.py` kills transient workers.
"""
