"""Systems as files of other programs."""
