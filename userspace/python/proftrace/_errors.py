"""What goes wrong."""

from __future__ import annotations


class ProftraceError(RuntimeError):
    """`exit_code`: the program's (docs/reference/exit-codes.md); None: it did not run. The message is its own sentence."""

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
