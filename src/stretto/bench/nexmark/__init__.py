"""NEXMark: an online auction as a stream of persons, auctions and bids, with its standard queries.

`events` defines which event arrives when: schemas, configuration, event time, arrival order and watermarks. `generator`
fills the events with values. Both use only numpy and pyarrow and know nothing of Spark or of stretto's runtime, so
any partition of any system can produce any slice. `oracle` returns each query's final answer, computed by Spark SQL.
"""
