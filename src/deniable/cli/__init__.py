"""The command line: `deniable`. A door only: every number comes from the layers below.

`main` loads the commands when it is called, so that importing one of them does not import them all.
"""

import sys


def main() -> None:
    """The entry point of the `deniable` command. Ctrl-C ends it with one sentence, while it is being loaded
    too."""
    try:
        from deniable.cli.app import app
        from deniable.cli.terminal import calm_warnings, mend_streams

        mend_streams()
        calm_warnings()
        app()
    except KeyboardInterrupt:
        sys.exit(_by_hand())
    except SystemExit as leaving:
        if isinstance(getattr(leaving.__context__, "__cause__", None), KeyboardInterrupt):
            sys.exit(_by_hand())
        raise


def _by_hand() -> int:
    """128 + SIGINT, as a shell expects it."""
    sys.stderr.write("Stopped, as you asked.\n")
    return 130
