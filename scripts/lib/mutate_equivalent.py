"""Faults that `mutate.py` can plant and no test can notice, each with the reason."""

# (header, what stands there, what would come in its place): why nothing changes
EQUIVALENT: dict[tuple[str, str, str], str] = {}
