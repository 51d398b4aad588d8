"""The frames that machines exchange: typed, one module per conversation. Pure.

Nothing here is ever pickled. A frame is plain data: it names actors by their address, members by their name and
channels by the sender's number for them. The room must never know sockets, or which part handles a frame.

Read next: `membership.py` and `jobs.py` (worker and coordinator), `channels.py` and `leasing.py` (worker and worker).
"""
