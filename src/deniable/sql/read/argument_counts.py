"""How many arguments a function may be given. The parser drops what is one too many, and a query with an
argument less is another query: it is counted here, in the words of the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import Token, TokenType

# fmt: off
_MOST = {
    "REGEXP_REPLACE": 4, "REGEXP_EXTRACT": 4, "REGEXP_MATCHES": 3, "DATE_DIFF": 3, "DATEDIFF": 3,
    "DATE_SUB": 3, "SPLIT_PART": 3, "LPAD": 3, "RPAD": 3, "DATE_TRUNC": 2, "ROUND": 2, "SUBSTR": 3,
    "SUBSTRING": 3, "LEFT": 2, "RIGHT": 2, "QUANTILE_CONT": 2, "QUANTILE_DISC": 2, "QUANTILE": 2,
    "STRFTIME": 2, "STRPTIME": 2, "TO_CHAR": 2, "MAKE_DATE": 3, "MOD": 2, "LENGTH": 1, "GENERATE_SERIES": 3, "COUNT_IF": 1, "JSON_EXTRACT_STRING": 2,
}
# fmt: on
_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSE = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)


def excess(tokens: Sequence[Token]) -> tuple[str, int, int] | None:
    """The first function that is given more than it takes: its name, how many it takes, how many are given."""
    for name, given in _calls(tokens):
        if given > _MOST.get(name, given):
            return name, _MOST[name], given
    return None


def _calls(tokens: Sequence[Token]) -> Iterator[tuple[str, int]]:
    """Each bracket with the word before it, and how many parts it has."""
    open_brackets: list[tuple[str, int]] = []
    before = ""
    for token in tokens:
        if token.token_type in _OPEN:
            open_brackets.append((before, 1))
        elif token.token_type in _CLOSE and open_brackets:
            yield open_brackets.pop()
        elif token.token_type is TokenType.COMMA and open_brackets:
            name, parts = open_brackets.pop()
            open_brackets.append((name, parts + 1))
        before = "" if token.token_type is TokenType.STRING else token.text.upper()
