"""The jars of Spark's Kafka connector are fetched once; a fetch that did not end is made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from stretto.bench.kafka import connector as connecting
from stretto.errors import UserError


def test_the_jars_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []
    broken = True

    def fetch(coordinates: str, place: Path, alone: bool) -> None:
        assert alone
        if broken and len(fetched) == 2:
            raise UserError("cannot fetch", coordinates)
        fetched.append(coordinates)
        (place / "jars").mkdir(exist_ok=True)
        (place / "jars" / f"{coordinates.split(':')[1]}.jar").touch()

    monkeypatch.setenv("STRETTO_PEERS", str(tmp_path))
    monkeypatch.setattr(connecting, "fetch_jar", fetch)
    said: list[str] = []
    with pytest.raises(UserError, match="cannot fetch"):
        connecting.connector(said.append)
    broken = False
    fetched.clear()
    jars = connecting.connector(said.append)
    assert tuple(fetched) == connecting.JARS
    assert len(jars) == len(connecting.JARS)
    assert connecting.connector(said.append) == jars
    assert len(fetched) == len(connecting.JARS)
    assert len(said) == 2
