"""The dual-mode protocol: actors run in parallel between barriers and sequentially at them (dirigo.txt 4, appendix A).

A part of the worker for each role: `lessors.py` (what a lessor may run), `barriers.py` (its side of a barrier),
`lessees.py` (a lessee's side), `forwarding.py` (REJECTSEND), `registration.py` (DIRECTSEND), `programs.py` (what rides
with a critical message), `marks.py` (marks that are void). `rules.py` has the conditions that all of them go by. What
a lease brings, where a message may go and how states come together is for the function's discipline to say.

A watermark that other upstream actors still hold back needs no barrier: it is noted, and the next barrier waits for
what was sent before it. Critical messages that have come to their turn together share one barrier.

A barrier at the actor D for a critical message of the actor U:

1. The lessor of D comes to the critical message and holds back what follows it on that channel, until all that the
   DEPENDENCY_PAYLOAD names has run here. Then it is BLOCKED and sends SYNC_REQUEST to its lessees.
2. A lessee acknowledges, runs its part of the dependency set and nothing else, is BLOCKED, and replies with its partial
   state and with how far it has sent to the actors downstream.
3. Once all have acknowledged, nothing of U that follows the critical message can run anywhere in D, so U gets its ACK.
4. With all replies, the lessor is CRITICAL: it merges the states and runs the critical message in one run. Whatever
   critical messages that sends carry what the lessees reported as their own DEPENDENCY_PAYLOAD.
5. When the ACKs of all actors downstream are there, UNSYNC lets the lessees continue. An actor without lessees
   continues at once, and may have some when the ACKs are there.
"""
