"""Entities with transactions: accounts, and transfers between them, which happen as a whole or not at all.

Run it with `stretto serve examples.bank:app --in-process`, and call it:

    curl -X POST http://127.0.0.1:8080/Account/ann/deposit -H 'Content-Type: application/json' -d '{"amount": 100}'
    curl http://127.0.0.1:8080/Account/ann/look
"""

from stretto import App, Entity, reads


class NotEnough(Exception):
    """Who has too little, and how much."""


class Account(Entity):
    """An account by its owner's name, which begins empty."""

    balance: int = 0

    async def deposit(self, amount: int) -> int:
        """Adds an amount, and returns the balance."""
        self.balance += amount
        return self.balance

    async def transfer(self, to: str, amount: int) -> int:
        """Moves an amount to another account, and returns what is left."""
        if self.balance < amount:
            raise NotEnough(self.key, self.balance)
        self.balance -= amount
        await Account(to).deposit(amount)
        return self.balance

    @reads
    async def look(self) -> int:
        """Returns the balance."""
        return self.balance


app = App("bank", entities=[Account])
