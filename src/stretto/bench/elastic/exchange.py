"""The stock exchange (elasticutor.txt 5.4, figure 17): orders, a transactor, six statistics and five events.

Every function is keyed by the stock, but for the volume of users and the index of sectors: their rows come from several
transactors in no fixed order, so what they send per interval does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from stretto.actors.sink import Sink
from stretto.api.app import App
from stretto.api.memory import CollectSink
from stretto.api.slo import SLO
from stretto.api.stream import Stream
from stretto.bench.elastic import analytics_model
from stretto.bench.elastic.checks import Answer, check_all
from stretto.bench.elastic.costs import FREE, Cost
from stretto.bench.elastic.interval_statistics import Bars, Interval, Spread, TurnoverIndex, UserVolume, Vwap
from stretto.bench.elastic.numbered import NumberedSource
from stretto.bench.elastic.orders import Orders
from stretto.bench.elastic.rules import Rules
from stretto.bench.elastic.sequential_book import trades_of
from stretto.bench.elastic.trade_events import (
    CircuitBreaker,
    LargeOrder,
    MovingAverage,
    PerTrade,
    PriceAlarm,
    VolumeSpike,
    WashTrade,
)
from stretto.bench.elastic.trades import TRADES
from stretto.bench.elastic.transactor import Transactor
from stretto.bench.gates import Gate
from stretto.bench.verify import Verdict

PER_TRADE: dict[str, type[PerTrade]] = {
    "averages": MovingAverage,
    "alarms": PriceAlarm,
    "spikes": VolumeSpike,
    "washes": WashTrade,
    "halts": CircuitBreaker,
    "large_orders": LargeOrder,
}
PER_INTERVAL: dict[str, type[Interval]] = {"bars": Bars, "vwaps": Vwap, "spreads": Spread}
STATISTICS = ("averages", "bars", "vwaps", "spreads", "user_volumes", "indexes")
EVENTS = ("alarms", "spikes", "washes", "halts", "large_orders")


@dataclass(frozen=True)
class Exchange:
    """What runs: the orders, the rules, what the transactor costs, and how many there are of each function.

    `analysts` is the parallelism of each statistic and event. `batch` limits the rows that a source sends at once."""

    orders: Orders = field(default_factory=Orders)
    rules: Rules = field(default_factory=Rules)
    cost: Cost = FREE
    sources: int = 1
    transactors: int = 1
    analysts: int = 1
    paced: bool = False
    batch: int = 1000
    slo: SLO | None = None
    gate: Gate | None = None

    def app(self, sink: Callable[[], Sink] = CollectSink, name: str = "elastic-exchange") -> App:
        """Returns the app: `orders`, `transactor`, and functions and sinks by the names of `STATISTICS` and `EVENTS`.

        A sink has the name of what it gets; the function before it is called `find_` and that."""
        # A read looks at the orders of all sources, and sends those of its own stocks.
        app = App(name, slo=self.slo, engine="actors", batch_rows=self.batch * self.sources)
        source = NumberedSource(self.orders, self.paced)
        gated = source if self.gate is None else self.gate.before(source)
        orders = app.source("orders", gated, time="t", parallelism=self.sources)
        transactor = Transactor(self.rules.valid_us, self.cost)
        trades = orders.key_by("stock").apply(transactor, TRADES, name="transactor", parallelism=self.transactors)
        trades.sink(sink(), name="trades")
        for name, stream in self._analysed(trades).items():
            stream.sink(sink(), name=name)
        return app

    def _analysed(self, trades: Stream) -> dict[str, Stream]:
        by_stock = trades.key_by("stock")
        analysts = self.analysts
        found: dict[str, Stream] = {}
        for name, event in PER_TRADE.items():
            found[name] = by_stock.apply(event(self.rules), event.result, name=f"find_{name}", parallelism=analysts)
        for name, kind in PER_INTERVAL.items():
            statistic = kind(self.rules.interval_us)
            found[name] = by_stock.apply(statistic, kind.result, name=f"find_{name}", parallelism=analysts)
        bought = trades.select("t", "buyer AS user", "volume", "cash")
        sold = trades.select("t", "seller AS user", "-volume AS volume", "-cash AS cash")
        volumes = UserVolume(self.rules.interval_us)
        by_user = bought.union(sold).key_by("user")
        found["user_volumes"] = by_user.apply(
            volumes, UserVolume.result, name="find_user_volumes", parallelism=analysts
        )
        index = TurnoverIndex(self.rules.interval_us)
        sectors = trades.select("t", f"stock % {self.rules.sectors} AS sector", "stock", "price", "cash")
        by_sector = sectors.key_by("sector")
        found["indexes"] = by_sector.apply(index, TurnoverIndex.result, name="find_indexes", parallelism=analysts)
        return found

    def expected(self) -> dict[str, Answer]:
        """Returns the right answers by sink: the trades of a sequential order book over all orders, and what follows
        from them."""
        trades = trades_of(self.orders.table(), self.rules.valid_us)
        return {"trades": Answer(trades, key="stock"), **analytics_model.answers(trades, self.rules)}

    def check(self, results: Mapping[str, pa.Table]) -> dict[str, Verdict]:
        """Returns the verdict on the rows of each sink, which must be in the order of their arrival."""
        return check_all(results, self.expected())
