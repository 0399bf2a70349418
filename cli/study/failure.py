"""The error of everything that the user has to mend."""


class Failure(Exception):
    """`status` is that of the process: 2 a wrong file or flag, 3 the machine, 4 damaged data."""

    def __init__(self, text, status=2):
        super().__init__(text)
        self.status = status
