"""Random terms, grown from the vocabulary: each argument is a term of the family that its place takes."""

from __future__ import annotations

from random import Random

from stretto.bench.fuzz.forms import Form
from stretto.bench.fuzz.literals import random_literal
from stretto.bench.fuzz.terms import Term
from stretto.bench.fuzz.vocabulary import Signature, Slot, Vocabulary, filled

DEPTH_WEIGHTS = {1: 0.3, 2: 0.35, 3: 0.23, 4: 0.12}
LEAF_SHARE = 0.3
"""How often an argument is a leaf though it could be deeper."""
LITERAL_SHARE = 0.22
"""How often a leaf is a literal and not a column."""


class Generator:
    """Makes random terms; equal vocabularies and random numbers make equal terms."""

    def __init__(self, vocabulary: Vocabulary, rng: Random) -> None:
        self._vocabulary = vocabulary
        self._rng = rng
        self._forms = list(vocabulary.signatures)
        self._weights = [form.weight for form in self._forms]

    @property
    def has_forms(self) -> bool:
        return bool(self._forms)

    def term(self, depth_max: int | None = None) -> Term:
        """Returns a term of any form, at most so deep; four by default."""
        depths = [depth for depth in DEPTH_WEIGHTS if depth_max is None or depth <= depth_max]
        depth = self._rng.choices(depths, [DEPTH_WEIGHTS[depth] for depth in depths])[0]
        form = self._rng.choices(self._forms, self._weights)[0]
        return self._made(form, self._one_of(self._vocabulary.signatures[form]), depth)

    def term_of(self, family: str, depth: int) -> Term | None:
        """Returns a term of this family, or None if no form has it as its result."""
        forms = self._vocabulary.by_result.get(family)
        if not forms:
            return None
        form = self._rng.choices(list(forms), [form.weight for form in forms])[0]
        return self._made(form, self._one_of(forms[form]), depth)

    def _one_of(self, signatures: list[Signature]) -> Signature:
        return self._rng.choices(signatures, [signature.weight for signature in signatures])[0]

    def _made(self, form: Form, signature: Signature, depth: int) -> Term:
        return form.of(tuple(self._argument(slot, depth - 1) for slot in signature.slots), signature.result)

    def _argument(self, slot: Slot, depth: int) -> Term:
        if slot.texts:
            return filled(slot, self._vocabulary.columns, self._rng)
        forms = self._vocabulary.by_result.get(slot.family)
        if depth <= 0 or not forms or self._rng.random() < LEAF_SHARE:
            return self._leaf(slot)
        return self.term_of(slot.family, depth) or self._leaf(slot)

    def _leaf(self, slot: Slot) -> Term:
        if self._rng.random() < LITERAL_SHARE:
            found = random_literal(slot.family, self._rng)
            if found is not None:
                return found
        return filled(slot, self._vocabulary.columns, self._rng)
