"""Calls of to_number and to_char with Spark's answers, for the unit tests and for the test against Spark."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

READ: list[tuple[str, str, Any]] = [
    ("to_number('454', '999')", "decimal(3,0)", Decimal(454)),
    ("to_number('454.00', '000.00')", "decimal(5,2)", Decimal("454.00")),
    ("to_number('12,454', '99,999')", "decimal(5,0)", Decimal(12454)),
    ("to_number('$78.12', '$99.99')", "decimal(4,2)", Decimal("78.12")),
    ("to_number('12,454.8-', '99G999d9s')", "decimal(6,1)", Decimal("-12454.8")),
    ("to_number('<5>', '9PR')", "decimal(1,0)", Decimal(-5)),
    ("to_number('-5', 'MI9')", "decimal(1,0)", Decimal(-5)),
    ("to_number(' 1 2 ', '999')", "decimal(3,0)", Decimal(12)),
    ("to_number('\u0661\u0662', '99')", "decimal(2,0)", Decimal(12)),
    ("to_number('1', '9.99')", "decimal(3,2)", Decimal("1.00")),
    ("to_number(12, 99)", "decimal(2,0)", Decimal(12)),
    ("to_number('12', NULL)", "decimal(10,0)", None),
    ("to_number(NULL, '99')", "decimal(2,0)", None),
    ("try_to_number('1,2', '99')", "decimal(2,0)", None),
    ("try_to_number('12', '9')", "decimal(1,0)", None),
    ("try_to_number('1', '00')", "decimal(2,0)", None),
    ("try_to_number('5', '$9')", "decimal(1,0)", None),
    ("try_to_number('5>', '9PR')", "decimal(1,0)", None),
    ("try_to_number('', '9')", "decimal(1,0)", None),
]
WRITTEN = [
    ("to_char(454, '999')", "454"),
    ("to_char(454.00, '000D00')", "454.00"),
    ("to_char(12454, '99G999')", "12,454"),
    ("to_char(78.12, '$99.99')", "$78.12"),
    ("to_char(-12454.8, '99G999D9S')", "12,454.8-"),
    ("to_char(-5, 'S999')", "  -5"),
    ("to_char(5, 'MI99')", "  5"),
    ("to_char(-5, '99PR')", " <5>"),
    ("to_char(5, '99PR')", " 5  "),
    ("to_char(0.5, '9.9')", "0.5"),
    ("to_char(0, '9')", " "),
    ("to_char(5, '9.')", "5 "),
    ("to_char(100, '99.9')", "##.#"),
    ("to_char(1000, '0,000,000')", "0,001,000"),
    ("to_char('1.5', '9.9')", "1.5"),
    ("to_char(1.5D, '9.9')", "1.5"),
    ("to_varchar(12, '99')", "12"),
    ("to_char(date'2016-04-08', 'y')", "2016"),
    ("to_char(timestamp'2020-02-29', 'D')", "60"),
    ("to_char(X'537061', 'Base64')", "U3Bh"),
    ("to_char(X'537061', ' hex')", "537061"),
    ("to_char(X'537061', 'utf-8')", "Spa"),
    ("to_char(1, NULL)", None),
    ("to_char(NULL, '9')", None),
]
