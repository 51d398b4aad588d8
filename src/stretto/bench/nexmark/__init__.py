"""NEXMark: an online auction as a stream of persons, auctions and bids, with the queries that everyone measures.

`events` says which event comes when: schemas, configuration, event time, arrival order and watermarks. `generator`
fills the events with values. Both are pure numpy and pyarrow and know nothing of Spark or of stretto's runtime, so
any partition of any system can produce any slice. `oracle` gives each query's final answer, computed by Spark SQL.
"""
