"""OpenQASM text as tokens with places."""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from ...errors import QASMError

__all__ = ["Stream", "Token", "fail"]


class Token(NamedTuple):
    """A word of the text; `line` and `column` count from 1. At the end of the text `kind` is "end"."""

    kind: str  # "name", "integer", "real", "string", "symbol", "end"
    text: str
    line: int
    column: int


_TOKEN = re.compile(
    r"(?P<space>[ \t\r\f\ufeff]+|//[^\n]*)"
    r"|(?P<newline>\n)"
    r"|(?P<comment>/\*.*?\*/)"
    r"|(?P<real>(?:\d[\d_]*\.[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?|\d[\d_]*[eE][+-]?\d+)"
    r"|(?P<integer>0[xX][\da-fA-F_]+|0[bB][01_]+|\d[\d_]*)"
    r"|(?P<name>\$\d+|[^\W\d]\w*)"
    r'|(?P<string>"[^"\n]*"|\'[^\'\n]*\')'
    r"|(?P<symbol>->|==|!=|<=|>=|&&|\|\||\*\*|\+\+|/(?!\*)|[-+*^%(){}\[\];,:=<>!@~&|])",
    re.DOTALL,
)


def fail(message: str, token: Token) -> NoReturn:
    """Raise the error at a token."""
    raise QASMError(message, token.line, token.column)


def tokens(text: str) -> list[Token]:
    """All tokens of a text.

    Raises
    ------
    QASMError
        At a character that begins none.
    """
    found = []
    place, line, start = 0, 1, 0  # start: index at which the line begins
    while place < len(text):
        match = _TOKEN.match(text, place)
        here = Token("symbol", text[place], line, place - start + 1)
        if match is None:
            if text.startswith("/*", place):
                fail("this comment is not closed", here)
            fail("this text is not closed on its line (a quotation mark is missing)" if text[place] in "\"'"
                 else f"unexpected character {text[place]!r}", here)
        kind, place = match.lastgroup or "", match.end()
        if kind == "newline":
            line, start = line + 1, place
        elif kind == "comment":
            if "\n" in match[0]:
                line, start = line + match[0].count("\n"), match.start() + match[0].rindex("\n") + 1
        elif kind != "space":
            found.append(Token(kind, match[0], line, here.column))
    found.append(Token("end", "", line, place - start + 1))
    return found


class Stream:
    """Tokens read one after the other."""

    def __init__(self, text: str):
        self._tokens = tokens(text)
        self.place = 0

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def now(self) -> Token:
        """The token to be read next."""
        return self._tokens[self.place]

    def peek(self, ahead: int = 1) -> Token:
        """A token behind the next one."""
        return self._tokens[min(self.place + ahead, len(self._tokens) - 1)]

    def since(self, place: int) -> list[str]:
        """The texts of the tokens from a place to here."""
        return [token.text for token in self._tokens[place : self.place]]

    def take(self) -> Token:
        """Read a token."""
        token = self._tokens[self.place]
        if token.kind != "end":
            self.place += 1
        return token

    def accept(self, *texts: str) -> Token | None:
        """Read the token if it is one of these symbols or words, else None."""
        token = self._tokens[self.place]
        if token.text in texts and token.kind not in ("string", "end"):
            self.place += 1
            return token
        return None

    def expect(self, text: str, where: str) -> Token:
        """Read the token, which must be this symbol or word."""
        token = self.accept(text)
        if token is None:
            fail(f"{where}: {text!r} is missing before {describe(self.now)}", self.now)
        return token

    def name(self, where: str) -> Token:
        """Read a name."""
        if self.now.kind != "name":
            fail(f"{where}: a name is missing before {describe(self.now)}", self.now)
        return self.take()


def describe(token: Token) -> str:
    """A token as error messages call it."""
    return "the end of the text" if token.kind == "end" else repr(token.text)


