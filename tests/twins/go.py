"""Go by its rules as they are written (Tromp-Taylor, suicide forbidden): sets of points, boards compared whole."""

from __future__ import annotations

from itertools import product

PASS = "pass"


class Board:
    """stones: {(row, column): player}; superko as in `rl.games.Go`."""

    def __init__(self, size, komi, superko):
        self.size, self.komi, self.superko = size, komi, superko
        self.stones, self.player, self.passes, self.moves, self.ko, self.repeated = {}, 0, 0, 0, None, False
        self.seen = {frozenset()}
        self.points = list(product(range(size), repeat=2))

    def neighbors(self, point):
        r, c = point
        return [
            p
            for p in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1))
            if 0 <= p[0] < self.size and 0 <= p[1] < self.size
        ]

    def region(self, stones, point):
        """Points connected to `point` that look like it, and what other colors (None: empty) they touch."""
        color, found, waiting, touched = stones.get(point), {point}, [point], set()
        while waiting:
            for q in self.neighbors(waiting.pop()):
                if stones.get(q) != color:
                    touched.add(stones.get(q))
                elif q not in found:
                    found.add(q)
                    waiting.append(q)
        return found, touched

    def after(self, point):
        """Stones after the player to move plays at an empty point, and what was taken; None if it is suicide."""
        stones, taken = {**self.stones, point: self.player}, set()
        for q in self.neighbors(point):
            if stones.get(q) == 1 - self.player:
                chain, touched = self.region(stones, q)
                if None not in touched:
                    taken |= chain
                    stones = {p: s for p, s in stones.items() if p not in chain}
        return (stones, taken) if None in self.region(stones, point)[1] else None

    def legal(self):
        """Legal moves."""
        found = []
        for point in self.points:
            if point not in self.stones and (result := self.after(point)) is not None:
                forbidden = frozenset(result[0].items()) in self.seen if self.superko else point == self.ko
                if not forbidden:
                    found.append(point)
        return [*found, PASS]

    def play(self, move):
        """Play a legal move."""
        self.ko = None
        if move == PASS:
            self.passes += 1
        else:
            surrounded = all(self.stones.get(q) == 1 - self.player for q in self.neighbors(move))
            self.stones, taken = self.after(move)
            self.passes = 0
            if surrounded and len(taken) == 1:
                (self.ko,) = taken
            board = frozenset(self.stones.items())
            self.repeated = not self.superko and board in self.seen
            self.seen.add(board)
        self.player = 1 - self.player
        self.moves += 1

    @property
    def terminal(self):
        return self.passes == 2 or self.moves == 2 * self.size**2 or self.repeated

    def returns(self):
        """Of Black and White."""
        if self.repeated:
            return [0, 0]
        area = [0, 0]
        for point in self.points:
            reached = {self.stones[point]} if point in self.stones else self.region(self.stones, point)[1]
            if len(reached) == 1:
                area[reached.pop()] += 1
        margin = area[0] - area[1] - self.komi
        sign = (margin > 0) - (margin < 0)
        return [sign, -sign]
