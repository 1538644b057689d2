"""Errors of the host build."""


class HostBuildError(RuntimeError):
    """Host execution cannot be built; the message is a sentence that says what is missing."""
