"""Monte-Carlo tree search: trees, the loop over them, and the formulas that go into it."""
