"""The parser of every command: an error comes before the usage, and an unknown name is reported with the nearest ones.

Subparsers get the class of their parser, so commands of other packages have the same errors.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from logcore.exit_codes import ExitCode
from logcore.reading.nearest_names import nearest
from logcore.texts import shown

_NUMBER = re.compile(r"-[0-9.]+(ms)?$")
"""Values that begin with `-` and are never options: numbers, and times before 1970."""


class CommandParser(argparse.ArgumentParser):
    """argparse with Loglake's errors and its exit code for wrong usage."""

    _is_in_pass = False
    _arguments: Sequence[str] = ()
    """The arguments that are being parsed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make a parser, as argparse does."""
        super().__init__(*args, **kwargs)
        self._negative_number_matcher = _NUMBER

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments. All of them must be known: otherwise the process ends with wrong usage (64)."""
        self._arguments = list(sys.argv[1:] if args is None else args)
        if self._subparsers is not None and next(self._unknown_options(), None) is not None:
            self.error("")  # before the command reports what it lacks itself
        if self._is_in_pass:
            return super().parse_known_args(self._arguments, namespace)
        if any(each.nargs == argparse.OPTIONAL for each in self._get_positional_actions()):
            # Otherwise an argument after an option is unexpected, where the last one can be left out.
            self._is_in_pass = True  # each of the two passes calls this method
            try:
                parsed, unknown = self.parse_known_intermixed_args(self._arguments, namespace)
            finally:
                self._is_in_pass = False
        else:
            parsed, unknown = super().parse_known_args(self._arguments, namespace)
        if unknown:
            self.error(f"unexpected arguments: {' '.join(unknown)}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Print the error, then the usage, and end the process.

        Args:
            message: The error. An unknown option is reported instead, because other errors may follow from it: without
                its option, a value looks like one more path.
        """
        place = next(self._unknown_options(), None)
        if place is not None:
            message = self._unknown_option(place)
        sys.stderr.write(f"error: {shown(message).rstrip('.')}.\n")
        self.print_usage(sys.stderr)
        self.exit(ExitCode.USAGE)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        if isinstance(action, argparse._SubParsersAction):
            raise argparse.ArgumentError(None, self._unknown(str(action.metavar).lower(), value, action.choices))
        choices = [str(choice) for choice in action.choices]
        raise argparse.ArgumentError(action, f"{value!r} is none of {', '.join(choices)}{_hint(str(value), choices)}")

    def _unknown_options(self) -> Iterator[int]:
        """Yield the places of options among the arguments that this parser does not have."""
        known = self._option_string_actions
        for place, text in enumerate(self._arguments):
            if text == "--":
                return
            if not text.startswith("-") or text == "-" or " " in text or _NUMBER.fullmatch(text):
                if self._subparsers is not None:
                    return  # what follows is for the command
                continue
            name = text.partition("=")[0]
            is_short = not text.startswith("--")
            if not (text[:2] in known if is_short else any(option.startswith(name) for option in known)):
                yield place

    def _unknown_option(self, place: int) -> str:
        text, before = self._arguments[place], self._arguments[place - 1] if place else ""
        action = self._option_string_actions.get(before)
        if action is not None and action.nargs is None and not text.startswith("--"):
            return f"unknown option {text!r}; a value that begins with - is written {before}={text}"
        return self._unknown("option", text.partition("=")[0], self._option_string_actions, prefix="--")

    def _unknown(self, kind: str, name: str, known: Iterable[str], prefix: str = "") -> str:
        names = [each.removeprefix(prefix) for each in known if each.startswith(prefix)]
        near = _hint(name.removeprefix(prefix), names, prefix)
        return f"unknown {kind} {name!r}{near or f'; `{self.prog} --help` lists all'}"


def _hint(name: str, known: Sequence[str], prefix: str = "") -> str:
    near = [f"{prefix}{each}" for each in nearest(name, known)]
    if not near:
        return ""
    return f"; the nearest {'name is' if len(near) == 1 else 'names are'} {', '.join(near)}"
