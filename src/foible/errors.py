"""What can go wrong, and the exit code that each kind leaves the command line with."""


class FoibleError(Exception):
    """An error of ours: exit code 4."""

    exit_code = 4


class UserError(FoibleError):
    """The user's input is wrong: the message says what was given, what was expected and what to do."""

    exit_code = 2


class Untrusted(UserError):
    """A file names code, a network to fetch or data elsewhere, and the user has not said --trust."""


class Interrupted(FoibleError):
    """Stopped by the user; what was finished is on disk and the same command goes on from there."""

    exit_code = 3
