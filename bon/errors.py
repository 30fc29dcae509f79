"""The one error a user is meant to see: what is wrong, where, and what mends it."""


class BonError(Exception):
    """A mistake the user can mend. Shown as one line, exit code 2, no traceback."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message if not fix else f"{message} -> {fix}")
        self.message = message
        self.fix = fix


class Unsupported(BonError):  # noqa: N818 - a capability, not a fault
    """An engine was asked for something that it cannot do."""
