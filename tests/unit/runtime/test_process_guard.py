"""A worker's process that ends in every possible way: its parent knows how, and what it ran last."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from stretto.actors.address import Address
from stretto.actors.deployment import FunctionSpec
from stretto.actors.function import Function
from stretto.actors.instance import Instance
from stretto.coordinator.events import DeathCause, LastRun
from stretto.runtime.process_guard import Ending, run_guarded
from stretto.runtime.run_note import ENTRIES, RunNote
from stretto.runtime.run_watch import STUCK_AFTER_NS, RunWatch


def instance_of(job: str, function: str, partition: int = 0) -> Instance:
    """Returns an instance of which only the name is used."""
    made = object.__new__(Instance)
    made.address = Address(job, function, partition)
    made.spec = FunctionSpec(function, Function(), 1)
    return made


RUN = instance_of("q5~2", "counts")


def crash() -> None:
    ctypes.string_at(0)


def close_all() -> None:
    os.closerange(0, 4_096)
    os.abort()


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


DEADLY: dict[str, tuple[Callable[[], None], str, DeathCause]] = {
    "exits": (lambda: os._exit(7), "exited with code 7", DeathCause.OWN),
    "exits as if all was well": (lambda: os._exit(0), "exited with code 0", DeathCause.OWN),
    "crashes": (crash, "was killed by SIGSEGV", DeathCause.OWN),
    "aborts": (os.abort, "was killed by SIGABRT", DeathCause.OWN),
    "closes all files": (close_all, "was killed by SIGABRT", DeathCause.OWN),
    "kills itself": (kill_itself, "was killed by SIGKILL", DeathCause.ANY),
}


@pytest.mark.parametrize("name", DEADLY)
def test_a_death_is_described_with_what_ran(name: str) -> None:
    deadly, how, cause = DEADLY[name]

    def work(note: RunNote) -> str:
        note.begin(RUN)
        deadly()
        return "never"

    ending = run_guarded(work)
    assert ending.reason == f"its process {how} while it ran function 'counts' of job 'q5'"
    assert ending.death is not None
    assert (ending.death.how, ending.death.cause) == (how, cause)
    assert ending.death.last_run == LastRun("q5~2", "counts", underway=True)
    if name in ("crashes", "aborts"):
        assert "test_process_guard.py" in (ending.death.stack or ""), "Python's stack"


def test_a_worker_that_leaves_by_itself_has_not_died() -> None:
    assert run_guarded(lambda note: "it was asked to") == Ending("it was asked to")


def test_a_worker_that_fails_has_died_of_its_own_doing() -> None:
    def work(note: RunNote) -> str:
        note.begin(RUN)
        note.end()
        raise ValueError("an invariant")

    ending = run_guarded(work)
    assert ending.reason == "its process failed with ValueError: an invariant"
    assert ending.death is not None
    assert ending.death.last_run == LastRun("q5~2", "counts", underway=False)


def test_a_thread_that_ends_the_process_leaves_the_note_of_what_ran_last() -> None:
    def work(note: RunNote) -> str:
        note.begin(RUN)
        note.end()
        threading.Thread(target=os._exit, args=(3,)).start()
        time.sleep(60)
        return "never"

    ending = run_guarded(work)
    assert ending.reason == "its process exited with code 3"
    assert ending.death is not None
    assert ending.death.last_run == LastRun("q5~2", "counts", underway=False)


def test_code_that_is_loaded_is_noted_without_a_function() -> None:
    def work(note: RunNote) -> str:
        note.begin_loading("q5")
        os._exit(1)

    ending = run_guarded(work)
    assert ending.reason == "its process exited with code 1 while it ran the code of job 'q5'"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the pulse thread notices it")
def test_the_child_dies_with_its_task(tmp_path: Path) -> None:
    """Also when it is stopped, so that no thread of it can notice anything."""
    told = tmp_path / "pid"
    task = os.fork()
    if task == 0:

        def work(note: RunNote) -> str:
            told.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
            return "never"

        run_guarded(work)
        os._exit(0)
    while not told.exists() or not told.read_text():
        time.sleep(0.01)
    child = psutil.Process(int(told.read_text()))
    while child.status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)
    os.kill(task, signal.SIGKILL)
    os.waitpid(task, 0)
    psutil.wait_procs([child], timeout=30)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


# The note.


def test_a_note_has_the_last_run_and_names_can_be_reused() -> None:
    note = RunNote()
    assert note.last_run() is None
    for number in range(3 * ENTRIES):
        instance = instance_of("job", f"f{number}")
        note.begin(instance)
        assert note.last_run() == LastRun("job", f"f{number}", underway=True)
        note.end()
        note.forget([instance])
    assert note.last_run() == LastRun("job", f"f{3 * ENTRIES - 1}", underway=False)
    note.close()


def test_a_note_names_the_steps_that_are_fused_into_a_function() -> None:
    note = RunNote()
    fused = instance_of("job", "bids")
    fused.spec.nodes = ["bids", "enrich"]
    note.begin(fused)
    assert note.last_run() == LastRun("job", "bids + enrich", underway=True)
    note.close()


def test_a_note_that_is_full_names_nothing_rather_than_something_else() -> None:
    note = RunNote()
    kept = [instance_of("job", f"f{number}") for number in range(ENTRIES + 1)]
    for instance in kept:
        note.begin(instance)
    assert note.last_run() is None
    note.begin(kept[5])
    assert note.last_run() == LastRun("job", "f5", underway=True)
    note.close()


# Runs that do not return.


def test_a_run_that_does_not_return_is_reported_with_where_it_is() -> None:
    note, release, begun = RunNote(), threading.Event(), threading.Event()

    def spin() -> None:
        begun.set()
        release.wait()

    thread = threading.Thread(target=spin)
    thread.start()
    begun.wait()
    watch = RunWatch(note, thread.ident)
    assert watch.stuck(0) is None, "nothing runs"
    note.begin(RUN)
    assert watch.stuck(1) is None, "it has only begun"
    assert watch.stuck(STUCK_AFTER_NS) is None
    stuck = watch.stuck(STUCK_AFTER_NS + 1)
    assert stuck is not None
    assert (stuck.job, stuck.function, stuck.for_ns) == ("q5~2", "counts", STUCK_AFTER_NS)
    assert "in spin" in stuck.stack
    note.end()
    note.begin(RUN)
    assert watch.stuck(2 * STUCK_AFTER_NS) is None, "another run"
    note.end()
    release.set()
    thread.join()
    note.close()
