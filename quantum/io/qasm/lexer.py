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


_BLANKS = " \t\r\f\ufeff"
_TOKEN = re.compile(
    rf"[{_BLANKS}]*(?:"
    r"(?P<space>//[^\n]*|\Z)"
    r"|(?P<newline>\n)"
    r"|(?P<comment>/\*.*?\*/)"
    r"|(?P<real>(?:\d[\d_]*\.[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?|\d[\d_]*[eE][+-]?\d+)"
    r"|(?P<integer>0[xX][\da-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|\d[\d_]*)"
    r"|(?P<name>\$\d+|[^\W\d]\w*)"
    r'|(?P<string>"[^"\n]*"|\'[^\'\n]*\')'
    r"|(?P<symbol>->|\*\*=|<<=|>>=|[-+*%&|^]=|/=|==|!=|<=|>=|<<|>>|&&|\|\||\*\*|\+\+|/(?!\*)"
    r"|[-+*^%(){}\[\];,:=<>!@~&|]|#(?=dim)))",
    re.DOTALL,
)


def fail(message: str, token: Token) -> NoReturn:
    """Raise the error at a token."""
    raise QASMError(message, token.line, token.column)


class Stream:
    """Tokens read one after the other; the text is cut into them as far as they are looked at."""

    def __init__(self, text: str):
        self._text, self._tokens = text, list[Token]()
        self._at, self._line, self._start = 0, 1, 0  # of the text that is left; where its line begins
        self.place = 0

    @property
    def now(self) -> Token:
        """The token to be read next."""
        found, place = self._tokens, self.place
        return found[place] if place < len(found) else self.peek(0)

    def peek(self, ahead: int = 1) -> Token:
        """A token behind the next one."""
        found, index = self._tokens, self.place + ahead
        while index >= len(found):
            if found and found[-1].kind == "end":
                return found[-1]
            self._cut()
        return found[index]

    def _cut(self) -> None:
        """Append the next token; raise QASMError at a character that begins none."""
        text = self._text
        while self._at < len(text):
            match = _TOKEN.match(text, self._at)
            if match is None:
                self._fail()
            if (kind := match.lastgroup or "") in ("newline", "comment"):
                self.skip(match.end())
                continue
            self._at = match.end()
            if kind != "space":
                self._tokens.append(Token(kind, match[kind], self._line, match.start(kind) - self._start + 1))
                return
        self._tokens.append(Token("end", "", self._line, self._at - self._start + 1))

    def _fail(self) -> NoReturn:
        """Raise the error at a character that begins no token."""
        text, place = self._text, self._at
        while text[place] in _BLANKS:
            place += 1
        here = Token("symbol", text[place], self._line, place - self._start + 1)
        if text.startswith("/*", place):
            fail("this comment is not closed", here)
        fail(
            "this text is not closed on its line (a quotation mark is missing)"
            if text[place] in "\"'"
            else f"unexpected character {text[place]!r}",
            here,
        )

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Match the text behind the tokens that were read; None where one was looked at ahead."""
        return pattern.match(self._text, self._at) if self.place == len(self._tokens) else None

    def skip(self, end: int) -> None:
        """Leave out the text up to a place."""
        if lines := self._text.count("\n", self._at, end):
            self._line, self._start = self._line + lines, self._text.rindex("\n", self._at, end) + 1
        self._at = end

    def since(self, place: int) -> list[str]:
        """The texts of the tokens from a place to here."""
        return [token.text for token in self._tokens[place : self.place]]

    def take(self) -> Token:
        """Read a token."""
        token = self.now
        if token.kind != "end":
            self.place += 1
        return token

    def accept(self, *texts: str) -> Token | None:
        """Read the token if it is one of these symbols or words, else None."""
        token = self.now
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
