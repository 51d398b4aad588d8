"""What coming and going workers do to running queries.

`taps.py`: a stream that lasts as long as a measurement needs. `output.py`: gaps and dips of what came out. `query.py`
scales a NEXMark query on a cluster, `structured.py` restarts it in Structured Streaming. `blows.py` kills processes in
the middle of drains and scale-outs; `driven.py` has the driver that is killed.
"""
