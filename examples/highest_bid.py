"""The highest bid of each auction in every two seconds, from a stream of generated bids.

stretto run examples.highest_bid:app
stretto explain examples.highest_bid:app
"""

from stretto import App, objective, sinks, tumbling
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.source import NexmarkSource

# 50,000 events at 10,000 per second: five seconds.
BIDS = NexmarkSource("bid", NexmarkConfig(seed=7, events=50_000), rate=10_000)

app = App("highest-bid", engine="actors", slo=objective(latency="500 ms"))

(
    app.source("bids", BIDS, time="dateTime")
    .filter("price >= 100")
    .key_by("auction")
    .window(tumbling("2 seconds"))
    .aggregate(bids="count(*)", high="max(price)")
    .sink(sinks.collect(), name="highest")
)
