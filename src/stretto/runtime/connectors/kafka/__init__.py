"""Kafka topics as sources and sinks.

`source.py` and `sink.py` are configuration, checked in the driver; `reader.py`, `transactions.py` and `sending.py` run
in the workers. `decoding.py`, `avro.py`, `encoding.py` and `rows.py` turn records into rows and back, a batch at a
time, and know nothing of Kafka. Only `client.py` imports confluent-kafka, which is optional.
"""
