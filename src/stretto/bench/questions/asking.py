"""Random questions: SELECTs over a table of results, of all clauses that are supported. Equal seeds ask the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

NUMBERS = ("auction", "bids", "price", "amount", "id")
KEYS = ("auction", "channel", "open", "day", "bids % 3", "upper(channel)", "date_trunc('HOUR', start)", "hour(start)")
CALLS = (
    "count(*)", "count({})", "sum({})", "avg({})", "min({})", "max({})", "count(DISTINCT {})", "sum(DISTINCT {})",
    "stddev({})", "var_pop({})", "median({})", "percentile({}, 0.25)", "percentile_approx({}, 0.5)", "bit_xor(bids)",
    "max_by(id, start + make_dt_interval(0, 0, 0, id))", "min_by(channel, id)", "bool_or(open)", "every(open)",
    "corr(bids, id)", "covar_samp(bids, id)", "mode(auction) IS NULL", "skewness({})",
    "sort_array(collect_set(auction))", "sort_array(collect_list({}))", "count_if({} > 10)", "min(start)", "max(day)",
    "regr_slope(bids, id)", "kurtosis({})", "max(channel)", "try_sum({})",
    "listagg(channel, ',') WITHIN GROUP (ORDER BY id)",
)  # fmt: skip
CONDITIONS = (
    "bids > 50", "price <= 30.25", "channel = 'web'", "channel LIKE '%e%'", "open = true", "NOT open",
    "auction IN (1, 2, 3)",
    "amount BETWEEN 10 AND 500", "channel IS NOT NULL", "price IS NULL OR bids < 10", "day >= date '2026-01-01'",
    "coalesce(bids, 0) % 2 = 1", "length(channel) > 2", "bids <=> auction", "isnan(price)", "id >= 20",
    "bids IS DISTINCT FROM 3",
)  # fmt: skip
EXPRESSIONS = (
    "bids + 1", "price * 2", "amount / 3", "upper(channel)", "concat(channel, '-', auction)", "day", "open", "auction",
    "CASE WHEN bids > 20 THEN 'many' ELSE 'few' END", "date_format(start, 'HH:mm')", "-bids", "price", "start",
    "coalesce(channel, 'none')", "cast(price AS decimal(12, 3))", "bids div 7", "year(start)", "nvl(auction, -1)",
)  # fmt: skip


@dataclass(frozen=True)
class Names:
    """The tables of questions, and the hours that the rows are of."""

    table: str
    small: str | None = None
    begin: str = "2026-01-01"
    hours: int = 24


class Asking:
    """Makes random questions."""

    def __init__(self, names: Names, rng: Random) -> None:
        self._names = names
        self._rng = rng

    def question(self) -> str:
        """Returns a question; with LIMIT the order is total, so that there is one answer."""
        kind = self._rng.random()
        if kind < 0.6:
            return self._grouped()
        return self._joined() if kind < 0.72 and self._names.small is not None else self._listed()

    def _grouped(self) -> str:
        rng = self._rng
        keys = rng.sample(KEYS, rng.choice((0, 1, 1, 1, 2)))
        calls = [self._call() for _ in range(rng.randint(1, 3))]
        listed = [f"{key} AS k{place}" for place, key in enumerate(keys)]
        listed += [f"{call} AS a{place}" for place, call in enumerate(calls)]
        text = f"SELECT {', '.join(listed)} FROM {self._names.table}{self._where()}"
        if keys:
            text += f" GROUP BY {', '.join(self._key(place, key) for place, key in enumerate(keys))}"
        if rng.random() < 0.25:
            text += f" HAVING {rng.choice(('count(*) > 2', 'max(id) > 30', 'sum(bids) IS NOT NULL', 'min(id) < 400'))}"
        return text + self._order([f"k{place}" for place in range(len(keys))] if keys else ["a0"], bool(keys))

    def _key(self, place: int, key: str) -> str:
        return self._rng.choice((key, f"k{place}", str(place + 1)))

    def _call(self) -> str:
        rng = self._rng
        call = rng.choice(CALLS).format(rng.choice(NUMBERS))
        if rng.random() < 0.15 and "DISTINCT" not in call and "(" in call[:20] and call.endswith(")"):
            plain = call.startswith(("sort_array", "listagg"))
            call = call if plain else f"{call} FILTER (WHERE {rng.choice(CONDITIONS)})"
        elif rng.random() < 0.1:
            call = f"count(*) + coalesce(max({rng.choice(NUMBERS)}), 0)"
        return call

    def _listed(self) -> str:
        rng = self._rng
        chosen = rng.sample(EXPRESSIONS, rng.randint(1, 4))
        if rng.random() < 0.2:
            names = [f"{each} AS e{place}" for place, each in enumerate(chosen[:2])]
            order = self._order([f"e{place}" for place in range(len(names))], True)
            return f"SELECT DISTINCT {', '.join(names)} FROM {self._names.table}{self._where()}{order}"
        if rng.random() < 0.1:
            return f"SELECT * FROM {self._names.table}{self._where()}{self._order(['id'], True)}"
        names = ["id", *(f"{each} AS e{place}" for place, each in enumerate(chosen))]
        by = [rng.choice(("bids", "price DESC", "channel", "e0")), "id"]
        return f"SELECT {', '.join(names)} FROM {self._names.table}{self._where()}{self._order(by, True)}"

    def _joined(self) -> str:
        rng, names = self._rng, self._names
        kind = rng.choice(("JOIN", "INNER JOIN", "LEFT JOIN", "LEFT OUTER JOIN"))
        on = rng.choice(("USING (auction)", "ON t.auction = s.auction", "ON t.auction = s.auction AND t.bids > s.rank"))
        where = rng.choice(("", " WHERE bids > 10", " WHERE s.rank < 3", " WHERE title IS NOT NULL"))
        if rng.random() < 0.5:
            chosen = "s.title AS k0, count(*) AS a0, sum(t.bids) AS a1"
            rest = f"{where} GROUP BY title{self._order(['k0'], True)}"
        else:
            chosen, rest = "t.id, t.bids, s.title, s.rank", f"{where}{self._order(['id', 'rank', 'title'], True)}"
        return f"SELECT {chosen} FROM {names.table} AS t {kind} {names.small} s {on}{rest}"

    def _where(self) -> str:
        rng = self._rng
        parts = list(rng.sample(CONDITIONS, rng.choice((0, 0, 1, 1, 2))))
        if rng.random() < 0.4:
            first = rng.randrange(self._names.hours)
            begin = f"timestamp '{self._names.begin} 00:00:00Z' + INTERVAL '{first}' HOUR"
            parts.append(
                rng.choice(
                    (
                        f"start >= {begin}",
                        f"{begin} > start",
                        f"start >= {begin} AND start < {begin} + INTERVAL 3 HOURS",
                    )
                )
            )
        return f" WHERE {' AND '.join(f'({each})' for each in parts)}" if parts else ""

    def _order(self, columns: Sequence[str], is_total: bool) -> str:
        rng = self._rng
        if rng.random() < 0.4:
            return ""
        ways = ("", "", " DESC", " NULLS LAST", " DESC NULLS FIRST")
        text = ", ".join(each + ("" if " " in each else rng.choice(ways)) for each in columns)
        limit = f" LIMIT {rng.randint(0, 12)}" if is_total and rng.random() < 0.5 else ""
        return f" ORDER BY {text}{limit}" + (f" OFFSET {rng.randint(0, 3)}" if limit and rng.random() < 0.3 else "")
