"""Rules of board games told cell by cell, on lists of lists: twins of the games that run on bitboards."""

from __future__ import annotations


class _Board:
    """`cells[r][c]` is ".", "x" (player 0) or "o" (player 1); `winner` is None while the game lasts, and -1 for a
    draw.
    """

    def __init__(self, rows, columns):
        self.rows, self.columns, self.player, self.winner = rows, columns, 0, None
        self.cells = [["."] * columns for _ in range(rows)]

    def at(self, r, c):
        return self.cells[r][c] if 0 <= r < self.rows and 0 <= c < self.columns else "#"

    @property
    def own(self):
        return "xo"[self.player]

    @property
    def other(self):
        return "ox"[self.player]

    def returns(self):
        return [0.0, 0.0] if self.winner == -1 else [1.0, -1.0] if self.winner == 0 else [-1.0, 1.0]


class ConnectFour(_Board):
    def __init__(self, rows=6, columns=7, length=4):
        super().__init__(rows, columns)
        self.length = length

    def legal(self):
        return [c for c in range(self.columns) if self.cells[0][c] == "."]

    def play(self, column):
        row = max(r for r in range(self.rows) if self.cells[r][column] == ".")
        self.cells[row][column] = self.own
        for dr, dc in ((0, 1), (1, 0), (1, 1), (1, -1)):
            run = 1
            for sign in (1, -1):
                n = 1
                while self.at(row + sign * n * dr, column + sign * n * dc) == self.own:
                    n += 1
                run += n - 1
            if run >= self.length:
                self.winner = self.player
        if self.winner is None and not self.legal():
            self.winner = -1
        self.player = 1 - self.player


class Othello(_Board):
    def __init__(self):
        super().__init__(8, 8)
        for r, c, stone in ((3, 3, "o"), (3, 4, "x"), (4, 3, "x"), (4, 4, "o")):
            self.cells[r][c] = stone

    def captured(self, r, c):
        found = []
        for dr in (-1, 0, 1):
            for dc in (-1, 0, 1):
                n = 1
                while (dr or dc) and self.at(r + n * dr, c + n * dc) == self.other:
                    n += 1
                if n > 1 and self.at(r + n * dr, c + n * dc) == self.own:
                    found += [(r + k * dr, c + k * dc) for k in range(1, n)]
        return found

    def placements(self):
        return [8 * r + c for r in range(8) for c in range(8) if self.cells[r][c] == "." and self.captured(r, c)]

    def legal(self):
        return self.placements() or [64]

    def play(self, action):
        if action != 64:
            r, c = divmod(action, 8)
            for a, b in [*self.captured(r, c), (r, c)]:
                self.cells[a][b] = self.own
        self.player = 1 - self.player
        if not self.placements():
            self.player = 1 - self.player
            over = not self.placements()
            self.player = 1 - self.player
            if over:
                x, o = (sum(row.count(s) for row in self.cells) for s in "xo")
                self.winner = -1 if x == o else int(o > x)


class Breakthrough(_Board):
    def __init__(self, rows=8, columns=8):
        super().__init__(rows, columns)
        for r in range(2 if rows >= 6 else 1):
            self.cells[r], self.cells[rows - 1 - r] = ["x"] * columns, ["o"] * columns

    def legal(self):
        found, ahead = [], 1 - 2 * self.player
        for r in range(self.rows):
            for c in range(self.columns):
                for d in range(3):
                    if self.cells[r][c] == self.own and self.at(r + ahead, c + d - 1) in (
                        ("." + self.other) if d != 1 else "."
                    ):
                        found.append(3 * (r * self.columns + c) + d)
        return found

    def play(self, action):
        cell, d = divmod(action, 3)
        r, c = divmod(cell, self.columns)
        to = r + 1 - 2 * self.player
        self.cells[r][c], self.cells[to][c + d - 1] = ".", self.own
        if to == (self.rows - 1, 0)[self.player] or not any(self.other in row for row in self.cells):
            self.winner = self.player
        self.player = 1 - self.player


class Hex(_Board):
    def __init__(self, size=11):
        super().__init__(size, size)

    def legal(self):
        return [self.rows * r + c for r in range(self.rows) for c in range(self.rows) if self.cells[r][c] == "."]

    def play(self, action):
        r, c = divmod(action, self.rows)
        self.cells[r][c] = self.own
        reached = {(0, k) if self.player == 0 else (k, 0) for k in range(self.rows)}
        reached = {(a, b) for a, b in reached if self.cells[a][b] == self.own}
        while True:
            beside = {
                (a + da, b + db) for a, b in reached for da, db in ((-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0))
            }
            more = {(a, b) for a, b in beside if self.at(a, b) == self.own} - reached
            if not more:
                break
            reached |= more
        if any((a, b)[self.player] == self.rows - 1 for a, b in reached):
            self.winner = self.player
        self.player = 1 - self.player
