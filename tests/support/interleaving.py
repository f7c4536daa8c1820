"""Actors whose steps are put into every order there is, or into a sample of those orders that is the same each time.

An actor is a generator: what it does between two ``yield`` is one step, which nobody else comes into.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator, Mapping
from math import comb

Actor = Callable[[], Generator[None]]


def count(lengths: list[int]) -> int:
    """How many orders there are of so many steps of each actor."""
    orders, steps = 1, 0
    for length in lengths:
        steps += length
        orders *= comb(steps, length)
    return orders


def order(lengths: list[int], number: int) -> list[int]:
    """The order of that number: whose turn it is, step by step."""
    left, turns = list(lengths), []
    while sum(left):
        for actor in (actor for actor, steps in enumerate(left) if steps):
            left[actor] -= 1
            orders = count(left)
            if number < orders:
                turns.append(actor)
                break
            number -= orders
            left[actor] += 1
    return turns


def orders(lengths: list[int], most: int) -> Iterator[list[int]]:
    """All of them, or so many of them."""
    total = count(lengths)
    numbers = range(total) if total <= most else sorted(random.Random(1).sample(range(total), most))
    for number in numbers:
        yield order(lengths, number)


def play(actors: Mapping[str, Actor], turns: list[int], is_alive: Callable[[str], bool]) -> list[str]:
    """Let them act in that order, the dead excepted; who acted, for whoever reads of a failure."""
    names = list(actors)
    running = [actors[name]() for name in names]
    acted = []
    for turn in turns:
        if is_alive(names[turn]):
            acted.append(names[turn])
            next(running[turn], None)
    for one in running:
        one.close()
    return acted
