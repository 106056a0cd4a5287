"""The command line: `deniable`. A door only: every number comes from the layers below.

`main` loads the commands when it is called, so that importing one of them does not import them all.
"""


def main() -> None:
    """The entry point of the `deniable` command."""
    from deniable.cli.app import app

    app()
