"""Expressions with Spark's answers, for the tests of the expressions and for those that ask Spark itself."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

#: Where z is 0, n is null; a division by z fails there, and so does a cast of s.
LAZY_ROWS = pa.record_batch(
    {
        "z": pa.array([0, 0, 1, None], pa.int32()),
        "n": pa.array([None, None, 7, 3], pa.int64()),
        "s": pa.array(["x", "x", "5", None], pa.string()),
        "b": pa.array([False, None, True, False], pa.bool_()),
        "k": pa.array([1, 1, 1, 1], pa.int64()),
    }
)

#: These fail in no row, because Spark does not evaluate what would.
LAZY: dict[str, list[Any]] = {
    "n + 1/z": [None, None, 8.0, None],
    "n - cast(s as int)": [None, None, 2, None],
    "n * cast(s as bigint)": [None, None, 35, None],
    "n + 1/z + cast(s as int)": [None, None, 13.0, None],
    "(n + 1/z) * 2 > cast(s as int)": [None, None, True, None],
    "n > 1/z": [None, None, True, None],
    "n = cast(s as int)": [None, None, False, None],
    "(1/z) / n": [None, None, 1 / 7, None],
    "(1 div z) % n": [None, None, 1, None],
    "(1 div z) div n": [None, None, 0, None],
    "null + 1/z": [None] * 4,
    "1/z + null": [None] * 4,
    "cast(s as int) + cast(null as int)": [None] * 4,
    "null + 1 div 0": [None] * 4,
    "null > 1/z": [None] * 4,
    "1/z < null": [None] * 4,
    "1 in (1, 1/z)": [True] * 4,
    "k in (1, cast(s as int))": [True] * 4,
    "n in (7, 1/z)": [None, None, True, None],
    "n not in (7, 1 div z)": [None, None, False, None],
    "n between 1/z and 8": [None, None, True, None],
    "k between 2 and 1/z": [False] * 4,
    "false and 1/z > 1": [False] * 4,
    "1/z > 1 and false": [False] * 4,
    "1/z > 1 or true": [True] * 4,
    "z <> 0 and 1/z > 0": [False, False, True, None],
    "z = 0 or 1/z > 0": [True, True, True, None],
    "if(z = 0, 0, 1/z)": [0.0, 0.0, 1.0, None],
    "if(true, k, 1 div 0)": [1] * 4,
    "if(n is null, 0, cast(s as int))": [0, 0, 5, None],
    "case when z = 0 then 0 when 1/z > 0 then 1 end": [0, 0, 1, None],
    "case z when 0 then 0 when 1 div z then 1 end": [0, 0, 1, None],
    "case when z = 0 then 'none' else cast(cast(s as int) as string) end": ["none", "none", "5", None],
    "coalesce(k, 1 div z)": [1] * 4,
    "coalesce(z, 1 div z)": [0, 0, 1, None],
    "nullif(n, 1 div z)": [None, None, 7, 3],
    "nvl(k, 1 div 0)": [1] * 4,
}

#: These fail, because Spark evaluates what does.
FAILING = [
    "1/z + n",
    "1/z > n",
    "n / (1/z)",
    "n % (1 div z)",
    "k + 1/z",
    "n <=> 1/z",
    "greatest(n, 1 div z)",
    "b and 1/z > 1",
    "b or 1/z > 1",
    "null and 1/z > 1",
    "k in (2, 1/z)",
    "k between 1/z and 2",
    "coalesce(n, 1 div z)",
    "if(z = 0, 1/z, 0)",
    "case when 1/z > 0 then 1 end",
    "k + cast(s as int)",
]

#: Forms whose meaning the parser, or a missing cast, could change.
FORMS: dict[str, list[Any]] = {
    "timestamp '2020-01-01 05:00:00'::date": [date(2020, 1, 1)] * 4,
    "date '2020-01-01'::string": ["2020-01-01"] * 4,
    "-5::string": ["-5"] * 4,
    "-2147483648::int": [-2147483648] * 4,
    "-z::string": [-0.0, -0.0, -1.0, None],
    "cast('ab' as varchar(1))": ["ab"] * 4,
    "'a' 'b'": ["ab"] * 4,
    "+'1'": [1.0] * 4,
    "+k": [1] * 4,
    "- '1.5'": [-1.5] * 4,
    "negative('1')": [-1.0] * 4,
    "z + '1'": [1, 1, 2, None],
    "'7' - k": [6] * 4,
    "k * '2'": [2] * 4,
    "k / '2'": [0.5] * 4,
    "'7' % k": [0] * 4,
    "'7' div k": [7] * 4,
    "1.5 + '1'": [2.5] * 4,
    "1.5D * '2'": [3.0] * 4,
    "n + if(z = 1, s, '1')": [None, None, 12, 4],
    "k = '1'": [True] * 4,
    "'1' = k": [True] * 4,
    "1.50 = '1.5'": [True] * 4,
    "n > '5'": [None, None, True, False],
    "b = 'true'": [False, None, True, False],
    "k <=> '1'": [True] * 4,
    "k between '0' and '1'": [True] * 4,
    "k in ('1', '2')": [True] * 4,
    "'1' in (1, '2')": [True] * 4,
    "1.5 in ('1.5')": [True] * 4,
    "'1' in (1, 1.5)": [True] * 4,
    "n in (s, '7')": [None, None, True, None],
    "coalesce(z, '5')": [0, 0, 1, 5],
    "coalesce('5', 1, 1.5)": [Decimal("5.0")] * 4,
    "coalesce(1.5, 1, '5')": [1.5] * 4,
    "if(b, 1, '2')": [2, 2, 1, 2],
    "if(b, '1', 2.5)": [2.5, 2.5, 1.0, 2.5],
    "if(b, date '2020-01-01', '2020-01-02')": [date(2020, 1, 2)] * 2 + [date(2020, 1, 1), date(2020, 1, 2)],
    "case when b then 'true' else true end": [True] * 4,
    "case z when '1' then 5 end": [None, None, 5, None],
    "nullif(k, '1')": [None] * 4,
    "nvl('7', z)": [7] * 4,
    "not 'true'": [False] * 4,
    "'true' and b": [False, None, True, False],
    "b or 'f'": [False, None, True, False],
    "cast(1.5 as decimal(10,2)) * 3Y": [Decimal("4.50")] * 4,
    "cast(1.5 as decimal(10,2)) + 3Y": [Decimal("4.50")] * 4,
    "cast(1.5 as decimal(10,2)) * 3S": [Decimal("4.50")] * 4,
    "if(n > 100, n, 12345678901234567890)": [Decimal("12345678901234567890")] * 4,
}

#: Spark refuses these before it runs.
REFUSED = [
    "* EXCEPT (q)",
    "* EXCEPT (z, z)",
    "* EXCLUDE (z)",
    "* AS q",
    "s:price",
    "'1' + '2'",
    "null + '1'",
    "'7' / '2'",
    "greatest(z, '5')",
    "least('1', 2.5)",
    "if('true', 1, 2)",
    "+true",
    "int '5'",
    "upper(s AS x)",
    "cast(z as int(5))",
    "cast(k as decimal(5,1,7))",
    "z AS q w",
    "k + interval 1 day",
]
