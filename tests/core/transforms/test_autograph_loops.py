"""Python's loops on traced values: the recorded function gives what Python gives."""

import numpy as np

from tests.twins.recorded import check, names


def collatz(n):
    k = 0
    while n > 1:
        n = np.where(n % 2 == 0, n // 2, 3 * n + 1)
        k = k + 1
    return k


def test_while():
    assert names(check(collatz, (27,), (1,), (6,))).count("while") == 1
    check(collatz, (27.0,), (7.0,))


def test_break_continue_else():
    def f(x):
        s = 0.0
        for i in range(10):
            if s > x:
                break
            if i % 2 == 0:
                continue
            s += i * 0.5
        else:
            s = s + 100
        return s

    check(f, (1.0,), (3.0,), (50.0,))


def test_return_from_inside_nested_loops():
    def f(x, n):
        t = 0.0
        i = 0
        while i < n:
            j = 0
            while True:
                j += 1
                if j > i:
                    break
                if j == 3:
                    continue
                if t > 40:
                    return t + 1000
                t = t + j * x
            i += 1
        return t

    check(f, (2.0, 3), (2.0, 50), (1.0, 5), (1.0, 0))


def test_return_of_a_tree_from_a_loop():
    def f(x, n):
        for i in range(n):
            if x > 100:
                return {"x": x - i, "i": i}["x"]
            grown = x * 1.5
            x = grown + 1
        return -x

    check(f, (2.0, 5), (2.0, 50), (200.0, 3), (2.0, 0))


def test_range_with_steps():
    def f(lo, hi):
        total = 0
        for i in range(lo, hi, 3):
            total += i
        for i in range(hi, lo, -2):
            total += 100 * i
        return total

    check(f, (0, 10), (3, 4), (5, 5), (7, 2))


def test_rows_of_an_array():
    def f(a):
        total, count = np.zeros_like(a[0]), 0
        for row in a:
            if row.sum() > 3:
                total = total + row
                count += 1
        return total * count

    graph = check(f, (np.arange(6.0).reshape(3, 2),), (-np.ones((3, 2)),))
    assert "scan" in names(graph)

    def until(a):
        last = a[0]
        for row in a:
            if row[0] > 2:
                break
            last = row
        return last

    check(until, (np.arange(6.0).reshape(3, 2),), (-np.ones((3, 2)),))


def test_concrete_loops_stay_python():
    def f(x):
        weights = []
        for i, name in enumerate(["a", "b", "c"]):
            if name != "b":
                weights.append(x * i)
        n = 0
        while n < 3:
            n += 1
        return sum(weights) + n

    assert set(names(check(f, (2.0,)))) == {"multiply", "add"}


def test_assignment_into_arrays():
    def f(x, n):
        y = np.zeros_like(x)
        for i in range(n):
            y[i] = 2 * x[i]
            if y[i] > 3:
                y[i] += 10
        return y

    check(f, (np.arange(4.0), 3), (np.arange(4.0), 4), (np.arange(4.0), 0))


def test_lists_filled_in_loops_over_arrays():
    def f(x):
        squares, seen = [], set()
        for k, v in enumerate(x):
            squares.append(v**2 if v > 0 else 0 * v)
            seen.add(k)
        for v in x:
            squares.append(2 * v)
        return np.array(squares) * len(seen)

    check(f, (np.array([1.0, -2.0, 3.0]),), (np.array([-1.0, 2.0, 3.0]),))
