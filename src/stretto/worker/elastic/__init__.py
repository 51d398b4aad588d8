"""Elastic executors: a keyed actor runs on as many workers as its load needs (elasticutor.txt 3).

`routing.py` divides rows at the home of an actor, `homes.py` decides there when a shard moves; `owners.py` gives and
takes the state of shards, on any worker; `activation.py` makes sure that tasks cannot overtake critical messages that
the home has sent before there were any. The tasks hold leases, and barriers concern them as they do all lessees
(`worker/leasing/`).

A shard moves from A to B like this:

1. The home's orders come from the coordinator. When no barrier is under way, rows of the shard begin to wait at the
   home. `Give` goes to A, with the last message that the home has sent to it on each channel: the label.
2. A has run all of these. It takes the state out and sends it to B (`Given`), with how far it has sent downstream.
3. B takes the state in, and says so (`Taken`). The route changes, and the rows that waited go to B.
4. The next batch that B sends to an actor downstream says what of A must run there before it. So results of one key
   stay in their order without a detour over the home.

Rows of other shards never wait, and no upstream actor hears of a move. No barrier begins while a shard moves, and no
move while a barrier is due; at a barrier each task does its part on its own shards.
"""
