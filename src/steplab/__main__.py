"""The command `steplab`, also as `python -m steplab`: Ctrl-C is one line and exit code 130 from the first moment on."""

from __future__ import annotations

import sys

INTERRUPTED = 130
AGAIN_S = 0.1


class Interrupt:
    """Ctrl-C until a command has a better answer to it; `came` tells that it was pressed."""

    came = False

    def handle(self, number: int, frame: object) -> None:
        """End the command."""
        self.came = True
        raise KeyboardInterrupt


def come_again(dropped: sys.UnraisableHookArgs) -> None:
    """Python drops an interrupt that comes while it forks or lets go of something: it comes again a moment later."""
    import signal

    if dropped.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(dropped)
        return
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, AGAIN_S)


def main() -> None:
    """Run the command line; it answers interrupts itself, but for those that come while it is being imported."""
    interrupt = Interrupt()
    sys.unraisablehook = come_again
    try:
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # `nohup` and the like ignore it
            signal.signal(signal.SIGINT, interrupt.handle)
        from steplab.cli import main as run

        run()
    except (KeyboardInterrupt, Exception) as error:
        # A library whose import was interrupted may answer with an error of its own.
        if not (interrupt.came or isinstance(error, KeyboardInterrupt)):
            raise
        print("steplab: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    finally:  # how it ends is decided: a further Ctrl-C would only show what Python does meanwhile
        if loaded := sys.modules.get("signal"):
            loaded.signal(loaded.SIGINT, loaded.SIG_IGN)


if __name__ == "__main__":
    main()
