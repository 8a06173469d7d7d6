"""Games and environments of other libraries as games: rules that are Python objects, with the positions and searches of
this package.
"""
