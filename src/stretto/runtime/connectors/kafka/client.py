"""Clients of Kafka: where confluent-kafka is imported, and what all clients have in common.

confluent-kafka is optional (the extra `kafka`), so nothing imports it before a client is made. librdkafka reconnects by
itself for ever: an error of a client is worth failing a job for only if waiting cannot mend it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stretto.errors import SourceError, StrettoError, UserError

TIMEOUT_S = 60.0
"""How long a question to the cluster may take."""

FETCHED_KB = 16_384
"""How much a consumer fetches ahead. There is one for each partition that is read."""

EXTRA = 'Install the extra: pip install "stretto[kafka]".'

PASSING = {
    "_ALL_BROKERS_DOWN",
    "_TRANSPORT",
    "_RESOLVE",
    "_TIMED_OUT",
    "_TIMED_OUT_QUEUE",
    "_WAIT_COORD",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
    "REQUEST_TIMED_OUT",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
}
"""The names of errors that pass."""

LASTING = {
    "MSG_SIZE_TOO_LARGE",
    "UNKNOWN_TOPIC_OR_PART",
    "_UNKNOWN_TOPIC",
    "_UNKNOWN_PARTITION",
    "INVALID_RECORD",
    "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "SASL_AUTHENTICATION_FAILED",
    "_AUTHENTICATION",
    "_INVALID_ARG",
    "INVALID_TRANSACTION_TIMEOUT",
}
"""The names of errors of a transaction that trying again cannot help."""

Settings = Mapping[str, Any]
"""Settings of librdkafka, by their names there."""


def library() -> Any:
    """Returns the module confluent_kafka; raises a UserError that names the extra if it is not installed."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise UserError("Kafka needs the package confluent-kafka", str(error), EXTRA) from error
    return confluent_kafka


def admin_client(settings: Settings) -> Any:
    """Returns a client that asks about topics."""
    library()
    from confluent_kafka.admin import AdminClient

    return AdminClient({"log_level": 0, **settings})


def consumer(settings: Settings) -> Any:
    """Returns a consumer that is assigned partitions and commits nothing: offsets are in checkpoints."""
    fixed = {"enable.auto.commit": False, "enable.auto.offset.store": False, "enable.partition.eof": True}
    usual = {
        "group.id": "stretto",
        "isolation.level": "read_committed",
        "queued.max.messages.kbytes": FETCHED_KB,
        "log_level": 0,
    }
    return library().Consumer({**usual, **settings, "auto.offset.reset": "error", **fixed})


def producer(settings: Settings) -> Any:
    """Returns a producer that writes records in their order, each once while it lives. A key goes to the partition to
    which clients in Java send it."""
    usual = {"linger.ms": 1, "partitioner": "murmur2_random", "log_level": 0}
    return library().Producer({**usual, **settings, "enable.idempotence": True})


def partitions_of(settings: Settings, topic: str, timeout_s: float = TIMEOUT_S) -> int:
    """Returns how many partitions a topic has; raises a SourceError if there is no such topic."""
    kafka = library()
    try:
        found = admin_client(settings).list_topics(topic, timeout=timeout_s).topics[topic]
    except kafka.KafkaException as error:
        raise unreachable(settings, error) from error
    if found.error is not None:
        raise SourceError(
            f"Kafka has no topic '{topic}'",
            f"{settings['bootstrap.servers']}: {found.error.str()}",
            "Create it, or correct its name.",
        )
    return len(found.partitions)


def unreachable(settings: Settings, error: Exception) -> StrettoError:
    """Returns the error of a cluster that did not answer, or refused."""
    return SourceError(
        f"Kafka did not answer at {settings['bootstrap.servers']}",
        text_of(error),
        "Check the address, and the settings of security in options=.",
    )


def text_of(error: Any) -> str:
    """Returns what a KafkaException or KafkaError says."""
    inner = error.args[0] if isinstance(error, Exception) and error.args else error
    return f"{inner.str()} ({inner.name()})" if hasattr(inner, "str") and hasattr(inner, "name") else str(error)


def can_mend(error: Any) -> bool:
    """Whether the client goes on by itself after a KafkaError, as when brokers are down for a while."""
    return not error.fatal() and (error.retriable() or error.name() in PASSING)
