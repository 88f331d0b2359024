"""What a person at the shell can act on."""

from ansor.errors import AnsorError


class CommandError(AnsorError):
    """Words on the command line that do not say what to do."""
