"""Which arguments each form takes, and what it gives: found by trial, so that it stays right as functions are added.

Every form is offered arguments of all families: columns, and constants. What the compiler accepts becomes a signature;
what it refuses is kept with its reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from stretto.bench.fuzz.columns import columns_by_family
from stretto.bench.fuzz.forms import Form
from stretto.bench.fuzz.literals import FAMILIES, random_literal
from stretto.bench.fuzz.terms import Term, family, literal
from stretto.errors import ExpressionError
from stretto.expressions import compile_scalar

TRIALS_MAX = 110
"""Combinations of arguments that are tried with each form."""

TRIALS_MORE = 300
"""Further combinations for a form of which none was accepted, if it has several arguments."""
_ARGUMENTS_HARD = 2

_INT_TEXTS = ("0", "1", "2", "3", "-1", "-2", "5")
_STRING_TEXTS = ("'a'", "''", "','", "'b'", "'abc'", "' '", "'ß'", "'%'")
# Where a form has too many combinations to try them all, these are tried more often.
_LIKELY = {"string": 5.0, "int": 4.0, "bigint": 1.5, "date": 1.5, "timestamp": 2.0, "double": 1.5, "boolean": 1.5}
_LIKELY_CONSTANT = 2.0
_NULL_WEIGHT, _CONSTANT_WEIGHT = 0.04, 0.5


@dataclass(frozen=True, slots=True)
class Slot:
    """What may stand at a place: any term of a family, or one of some constants."""

    family: str
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Signature:
    """Slots that a form takes, and the family of its value."""

    slots: tuple[Slot, ...]
    result: str

    @property
    def weight(self) -> float:
        """How often it is chosen: NULL is accepted everywhere, and shows little."""
        weight = 1.0
        for slot in self.slots:
            weight *= _NULL_WEIGHT if slot.family == "void" else _CONSTANT_WEIGHT if slot.texts else 1.0
        return weight


@dataclass(frozen=True, slots=True)
class Refusal:
    """A term that the compiler refuses, with the fact that it states."""

    term: Term
    reason: str


@dataclass
class Vocabulary:
    """The signatures of every form, by form and by the family of their results."""

    columns: dict[str, list[Term]]
    signatures: dict[Form, list[Signature]] = field(default_factory=dict)
    by_result: dict[str, dict[Form, list[Signature]]] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    crashes: list[Refusal] = field(default_factory=list)
    """Terms at which the compiler raised something else than its own error."""
    never: list[str] = field(default_factory=list)
    """Labels of forms that were never accepted."""

    def add(self, form: Form, signature: Signature) -> None:
        self.signatures.setdefault(form, []).append(signature)
        self.by_result.setdefault(signature.result, {}).setdefault(form, []).append(signature)

    def filled(self, slots: tuple[Slot, ...], rng: Random) -> tuple[Term, ...]:
        """Returns leaves for some slots."""
        return tuple(filled(slot, self.columns, rng) for slot in slots)

    def remove(self, form: Form, signature: Signature) -> None:
        for signatures in (self.signatures, self.by_result[signature.result]):
            signatures[form].remove(signature)
            if not signatures[form]:
                del signatures[form]


def explore(
    forms: list[Form], schema: pa.Schema, rng: Random, progress: Callable[[float], None] = lambda share: None
) -> Vocabulary:
    """Returns what the compiler accepts, after some trials of each form."""
    found = Vocabulary(columns_by_family(schema))
    slots = _general_slots(found.columns, schema, rng)
    for number, form in enumerate(forms):
        choices = _choices(form, slots)
        for chosen in _combinations(choices, rng):
            _try(found, form, chosen, schema, rng)
        for _ in range(TRIALS_MORE):
            if form in found.signatures or len(choices) < _ARGUMENTS_HARD:
                break
            _try(found, form, _drawn(choices, rng), schema, rng)
        progress((number + 1) / len(forms))
    accepted = {form.label for form in found.signatures}
    found.never = sorted({form.label for form in forms} - accepted)
    return found


def filled(slot: Slot, columns: dict[str, list[Term]], rng: Random) -> Term:
    """Returns a leaf for a slot: one of its constants, a column, or a literal where there is no such column."""
    if slot.texts:
        text = rng.choice(slot.texts)
        named = [term for term in columns.get(slot.family, ()) if term.text == text]
        return named[0] if named else literal(text, slot.family, fixed=True)
    if slot.family in columns:
        return rng.choice(columns[slot.family])
    term = random_literal(slot.family, rng)
    assert term is not None, slot
    return term


def _try(found: Vocabulary, form: Form, slots: tuple[Slot, ...], schema: pa.Schema, rng: Random) -> None:
    term = form.of(found.filled(slots, rng))
    try:
        kind = compile_scalar(term.text, schema).type
    except ExpressionError as error:
        found.refusals.append(Refusal(term, error.fact))
    except Exception as error:  # Whatever else is raised is a defect that the fuzzer reports.
        found.crashes.append(Refusal(term, f"{type(error).__name__}: {error}"))
    else:
        found.add(form, Signature(slots, family(kind)))


def _general_slots(columns: dict[str, list[Term]], schema: pa.Schema, rng: Random) -> list[Slot]:
    """Returns the slots to try everywhere: families that have columns or literals, and two kinds of constants."""
    names = [*columns, *(name for name in FAMILIES if name not in columns and _has_literal(name, schema, rng))]
    return [*(Slot(name) for name in names), Slot("int", _INT_TEXTS), Slot("string", _STRING_TEXTS)]


def _has_literal(name: str, schema: pa.Schema, rng: Random) -> bool:
    term = random_literal(name, rng)
    try:
        return term is not None and family(compile_scalar(term.text, schema).type) == name
    except ExpressionError:
        return False


def _choices(form: Form, slots: list[Slot]) -> list[list[Slot]]:
    """Returns what to try at each place of a form."""
    hints = dict(form.hints)
    return [
        [Slot("int" if hints[place][0].lstrip("-").isdigit() else "string", hints[place])] if place in hints else slots
        for place in range(form.arity)
    ]


def _combinations(choices: list[list[Slot]], rng: Random) -> list[tuple[Slot, ...]]:
    total = 1
    for choice in choices:
        total *= len(choice)
    if total <= TRIALS_MAX:
        return list(itertools.product(*choices))
    alike = [tuple(choice[n % len(choice)] for choice in choices) for n in range(max(map(len, choices)))]
    drawn = [_drawn(choices, rng) for _ in range(TRIALS_MAX - len(alike))]
    return list(dict.fromkeys(alike + drawn))


def _drawn(choices: list[list[Slot]], rng: Random) -> tuple[Slot, ...]:
    return tuple(_likely(choice, rng) for choice in choices)


def _likely(slots: list[Slot], rng: Random) -> Slot:
    weights = [_LIKELY_CONSTANT if slot.texts else _LIKELY.get(slot.family, 1.0) for slot in slots]
    return rng.choices(slots, weights)[0]
