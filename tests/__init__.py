"""A package, so that none of another distribution that is called `tests` too (there are some) comes first."""
