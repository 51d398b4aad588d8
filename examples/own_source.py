"""A source of one's own: thermometers that report at a fixed rate, as if a gateway were polled.

stretto run examples.own_source:app
"""

import pyarrow as pa

from stretto import App, Reading, Source, SourceReader, sinks, tumbling

FIRST_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
STEP_US = 100_000


class Thermometers(Source):
    """Readings of numbered sensors, one of each every 100 ms of event time. It is sent to the workers, so it has only
    configuration; files and connections belong to the readers."""

    schema = pa.schema([("sensor", pa.int64()), ("degrees", pa.float64()), ("at", pa.timestamp("us", tz="UTC"))])

    def __init__(self, sensors: int, rounds: int) -> None:
        self.sensors = sensors
        self.rounds = rounds

    def length(self, partition: int, partitions: int) -> int:
        """Returns the number of rows of a partition, which is its last position."""
        return self.rounds * len(range(partition, self.sensors, partitions))

    def reader(self, partition: int, partitions: int) -> SourceReader:
        return ThermometerReader(range(partition, self.sensors, partitions), self.rounds)

    def describe(self) -> str:
        return f"{self.sensors} thermometers, {self.rounds} rounds"


class ThermometerReader(SourceReader):
    """Reads some of the sensors. Its position is a number of rows, and the rows after a position are always the same:
    that is all that replay and recovery need."""

    def __init__(self, sensors: range, rounds: int) -> None:
        self.sensors = sensors
        self.rows = rounds * len(sensors)

    def read(self, now_ns: int, max_rows: int) -> Reading:
        numbers = range(self.position, min(self.position + max_rows, self.rows))
        self.position = numbers.stop
        rows = [self.row(number) for number in numbers]
        batch = pa.RecordBatch.from_pylist(rows, Thermometers.schema) if rows else None
        # Nothing before the last reading follows, so the source knows its watermark itself.
        watermark_us = FIRST_US + numbers.stop // max(1, len(self.sensors)) * STEP_US
        return Reading(batch, arrived_ns=now_ns, watermark_us=watermark_us, done=self.position >= self.rows)

    def row(self, number: int) -> dict[str, object]:
        turn, place = divmod(number, len(self.sensors))
        sensor = self.sensors[place]
        return {"sensor": sensor, "degrees": 20 + (turn * 7 + sensor) % 10 / 10, "at": FIRST_US + turn * STEP_US}

    def seek(self, position: int) -> None:
        self.position = position


app = App("thermometers")
readings = app.source("readings", Thermometers(sensors=4, rounds=100), time="at")
warmest = readings.key_by("sensor").window(tumbling("1 second")).aggregate(n="count(*)", degrees="max(degrees)")
warmest.sink(sinks.collect(), name="warmest")
