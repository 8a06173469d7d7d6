"""MCTS-Solver [1]_: what simulations that end in a game's end prove about the nodes above, and how a search takes note
of it.

A node is a win for who moves there when one child is, and has the value of its best child once all are proven; until
then the best proven value is a bound of what it is worth [2]_, kept (plus 1) in `Tree.rewards`. A proven node's exact
value is its total by its visits. A simulation ends where it meets one. Where one player collects returns of any size,
none of them is known to be the best or the worst: a node is proven once all its children are.

A node's mean, which the selection compares, holds what the search has believed of its moves, refuted ones too, and this
is what makes nodes comparable. Searches that leave refuted moves out, or that put exact values into the means at once,
keep fewer outcomes of connect four than searches that prove nothing. So a mean changes only as visits come in, and
proofs change nothing else of a selection: they replace the value of a visit, the moves that are open to it (see
`select_open`), and the choice at the end.

References
----------
.. [1] Winands, Björnsson, Saito, "Monte-Carlo tree search solver", CG 2008, section 3. doi:10.1007/978-3-540-87608-3_3
.. [2] Cazenave, Saffidine, "Score bounded Monte-Carlo tree search", CG 2010, section 3. doi:10.1007/978-3-642-17928-0_9
"""

import numpy as np

from triskele.core.extend import device, template

from ..tree import FREE, PROVEN
from .simulation import NEW, NOT_FINITE, NOT_ZERO_SUM, finite

__all__ = ["ask_chances", "bounded", "finish_proving", "no_chances", "select_open", "worst_value"]

_ROUNDING = 1e-9  # by which returns may miss -1, 1 and a sum of 0 to be proven


@device
def _provable(values):
    """Return True if the values of two players lie in [-1, 1] and sum to 0."""
    return len(values) == 1 or (abs(values[0]) <= 1.0 + _ROUNDING and abs(values[0] + values[1]) < _ROUNDING)


@device
def worst_value(players):
    """The value that nothing is worse than; its negative is a win."""
    return -np.inf if players == 1 else -1.0


@device
def _exact(tree, node):
    """The value of a proven node for who moved there."""
    return tree.totals[node] / np.int64(tree.stats[node].visits)


@device
def _best(tree, node, worst):
    """The best value that is proven for a child, or the worst one."""
    link, best = tree.links[node], worst
    for edge in range(link.first_edge, link.first_edge + link.num_edges):
        child = tree.children[edge]
        if child >= 0 and tree.links[child].flags & PROVEN:
            best = max(best, _exact(tree, child))
    return best


@device
def bounded(tree, player, child, best):
    """Return True if the opponent's proven bound at an unproven child limits its value for `player` to at most
    `best`.
    """
    other = tree.links[child].player
    return (
        player >= 0
        and other >= 0
        and other != player
        and tree.rewards[child] > 0.0
        and 1.0 - tree.rewards[child] <= best
    )


@device
def _closed(tree, node, child, best):
    """Return True if further visits to a child (or FREE) cannot change the value of the node: it is proven or
    bounded.
    """
    return child >= 0 and (tree.links[child].flags & PROVEN != 0 or bounded(tree, tree.links[node].player, child, best))


@template
def select_open(select, tree, node, parameters, work, depth):
    """`select`, or, where that takes a child proven to be no loss, the best of those that are not closed, the former
    being noted.

    Were proven draws not selected any more, nodes that have one would look better than others; were they selected as
    ever, little would be left for what could still be won. So they get their visits, of which those above learn, and
    the simulation explores.
    """
    edge = select(tree, node, parameters, tree.streams)
    child, link, worst = np.int64(tree.children[edge]), tree.links[node], worst_value(len(work.values))
    work.counted[depth] = FREE
    if child < 0 or link.player < 0 or not tree.links[child].flags & PROVEN or _exact(tree, child) == worst:
        return edge
    work.counted[depth] = child
    first, best = link.first_edge, _best(tree, node, worst)
    for k in range(link.num_edges):
        child = tree.children[first + k]
        if _closed(tree, node, child, best):
            work.priors[k], tree.stats[child].mean = tree.stats[child].mean, -np.inf
    edge = select(tree, node, parameters, tree.streams)
    for k in range(link.num_edges):
        child = tree.children[first + k]
        if child >= 0 and tree.stats[child].mean == -np.inf:
            tree.stats[child].mean = work.priors[k]
    return edge


@template
def finish_proving(search, tree, states, depth, known, work):
    """`simulation.finish`, followed by `_prove`; a status."""
    if not finite(work.values):
        return NOT_FINITE
    if known and not _provable(work.values):
        return NOT_ZERO_SUM
    _back_up(search.update, tree, work, depth)
    if known:
        _prove(search, tree, states, work, depth)
    return NEW


@template
def _back_up(update, tree, work, depth):
    """Visit every node of the path, with the exact value of a child from where `select_open` has noted one on."""
    values = work.values
    for d in range(depth, -1, -1):
        node = work.path[d]
        if d < depth and work.counted[d] >= 0:
            child, player = work.counted[d], np.int64(tree.links[node].player)
            value = _exact(tree, child)
            _visit(update, tree, child, value)
            for p in range(len(values)):
                values[p] = value if p == player else -value
        _visit(update, tree, node, values[work.movers[d]])


@template
def _visit(update, tree, node, value):
    """Visit one node; if it is proven its total stays exact, and its mean continues from its last value."""
    visits = np.int64(tree.stats[node].visits) + 1
    if tree.links[node].flags & PROVEN:
        total = update(tree.stats[node].mean * np.float64(visits - 1), visits, value)
        tree.totals[node] = value * visits
    else:
        total = update(tree.totals[node], visits, value)
        tree.totals[node] = total
    tree.stats[node].visits, tree.stats[node].mean = visits, total / visits


@device
def _settle(tree, node, value, worst):
    """Note the exact value of a node for who moved there."""
    tree.links[node].flags |= PROVEN
    tree.totals[node] = min(max(value, worst), -worst) * np.int64(tree.stats[node].visits)


@device
def _at_most(x):
    """x rounded down to float32."""
    rounded = np.float32(x)
    return rounded if np.float64(rounded) <= x else np.float32(x - 2.5e-7)


@template
def ask_chances(rules, states, work, d):
    """Write the probabilities of the chance node path[d]."""
    rules.chance(states[work.path[d]], work.probabilities)


@template
def no_chances(rules, states, work, d):
    """Nothing to write: the game has no chance."""


@template
def _expected(search, tree, states, work, d):
    """The exact value of a chance node whose children are all proven; `search.chances` writes work.probabilities."""
    link, mean, total = tree.links[work.path[d]], 0.0, 0.0
    search.chances(search.rules, states, work, d)
    for edge in range(link.first_edge, link.first_edge + link.num_edges):
        p = work.probabilities[tree.actions[edge]]
        mean += p * _exact(tree, tree.children[edge])
        total += p
    return mean / total


@template
def _prove(search, tree, states, work, depth):
    """After a simulation that ended in a KNOWN node, whose values are `_provable`, note what follows exactly for those
    above.
    """
    node, worst = work.path[depth], worst_value(len(work.values))
    if tree.links[node].flags & PROVEN:
        return
    _settle(tree, node, _exact(tree, node), worst)
    for d in range(depth - 1, -1, -1):
        node = work.path[d]
        link, best, complete = tree.links[node], _best(tree, node, worst), True
        for edge in range(link.first_edge, link.first_edge + link.num_edges):
            complete &= _closed(tree, node, tree.children[edge], best)
        if link.player < 0:
            if not complete:
                break
            # children and node have the same mover
            _settle(tree, node, _expected(search, tree, states, work, d), worst)
        elif complete or best == -worst:
            _settle(tree, node, best if link.player == work.movers[d] else -best, worst)
        elif tree.rewards[node] < _at_most(best + 1.0):
            tree.rewards[node] = _at_most(best + 1.0)  # which may decide something above
        else:
            break
