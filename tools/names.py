"""Names that tell a reader nothing: lone participles, pronouns, prepositions and adjectives (`make house`).

A function is named by a verb for what it does, or by a noun for what it gives; parameters and attributes by a noun
for what they are. `found`, `_given_over`, `of`, `as_told` are neither.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

# fmt: off
IRREGULAR = frozenset([
    "beaten", "begun", "born", "bought", "broken", "brought", "built", "caught", "chosen", "done", "drawn",
    "fallen", "felt", "forgiven", "forgotten", "found", "frozen", "given", "gone", "grown", "held", "kept", "known",
    "laid", "learnt", "led", "lent", "lied", "lost", "made", "meant", "met", "paid", "put", "said", "seen", "sent",
    "shown", "shut", "sought", "spelt", "spent", "spoken", "stood", "swept", "taken", "taught", "thought", "told",
    "torn", "understood", "unknown", "unread", "unseen", "won", "worn", "written",
])
"""Participles that do not end in -ed."""

PRONOUNS = frozenset([
    "all", "any", "anything", "both", "each", "either", "enough", "every", "everything", "few", "fewer", "half",
    "her", "here", "hers", "him", "his", "how", "it", "its", "less", "many", "me", "mine", "more", "most", "much",
    "neither", "none", "nothing", "one", "ones", "other", "others", "ours", "own", "same", "several", "she", "some",
    "somebody", "something", "such", "that", "them", "then", "there", "these", "they", "thing", "things", "this",
    "those", "what", "when", "where", "which", "who", "whole", "whom", "whose", "why",
])

PREPOSITIONS = frozenset([
    "about", "above", "across", "after", "again", "ahead", "alone", "along", "also", "among", "apart", "around",
    "as", "aside", "at", "away", "back", "before", "behind", "below", "beside", "besides", "between", "beyond",
    "by", "down", "ever", "far", "for", "from", "in", "inside", "into", "just", "near", "not", "now", "of", "off",
    "on", "once", "only", "onto", "or", "out", "outside", "over", "per", "so", "still", "than", "the", "through",
    "to", "together", "too", "under", "until", "up", "upon", "with", "within", "without", "yet",
])

ADJECTIVES = frozenset([
    "alike", "bare", "certain", "different", "even", "exactly", "fresh", "further", "genuine", "harmless", "late",
    "like", "loose", "narrow", "new", "old", "plain", "possible", "rough", "safe", "short", "similar", "single",
    "small", "strict", "sure", "typical", "usable", "usual", "visible", "wide", "wrong",
])

IN_LOCALS = (IRREGULAR | {"asked", "one", "plain", "whole"}) - {
    "beaten", "begun", "born", "bought", "broken", "done", "forgiven", "forgotten", "frozen", "grown", "learnt",
    "shut", "unknown", "unread", "unseen",
}
"""Those that stand in no function as a local either."""
# fmt: on

NOUNS = frozenset(
    [
        "bed",
        "breed",
        "embed",
        "exceed",
        "feed",
        "need",
        "proceed",
        "seed",
        "shed",
        "speed",
        "succeed",
        "unused",
    ]
)
"""Words in -ed that are no participles. (`left` and `hidden` are nouns of our field: a side, a layer.)"""

EMPTY = IRREGULAR | PRONOUNS | PREPOSITIONS | ADJECTIVES

Function = ast.FunctionDef | ast.AsyncFunctionDef


def lone(name: str) -> bool:
    """Whether a name consists of participles, pronouns and the like, and says nothing besides.

    >>> names = ("found", "rows_read", "bounded", "seed", "answer", "one", "_given_over", "__add__", "of")
    >>> [name for name in names if lone(name)]
    ['found', 'bounded', 'one', '_given_over', 'of']
    """
    if name.startswith("__"):
        return False
    words = name.strip("_").split("_")
    return all(word in EMPTY or _is_participle(word) for word in words)


def lone_local(name: str) -> bool:
    """The same for a name within a function, which its neighbours explain: one word, participle or pronoun.

    >>> [name for name in ("found", "unknown", "bounded", "wide", "one") if lone_local(name)]
    ['found', 'bounded', 'one']
    """
    return name in IN_LOCALS or (_is_participle(name) and name not in IRREGULAR)


def _is_participle(word: str) -> bool:
    return word.isalpha() and word.endswith("ed") and word not in NOUNS


def functions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Names of functions and methods, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node.name, node.lineno


def parameters(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Names of parameters, of functions and of lambdas."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.arguments):
            continue
        for each in (*node.posonlyargs, *node.args, *node.kwonlyargs, node.vararg, node.kwarg):
            if each is not None and each.arg not in ("self", "cls", "_"):
                yield each.arg, each.lineno


def attributes(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Names that a class declares in its body, and that its methods bind in `self`."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(body=body):
                targets = (target for line in body for target in _targets(line))
                yield from ((target.id, target.lineno) for target in targets if isinstance(target, ast.Name))
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name, node.lineno


def _targets(line: ast.stmt) -> list[ast.expr]:
    match line:
        case ast.AnnAssign(target=target):
            return [target]
        case ast.Assign(targets=targets):
            return targets
    return []


KINDS = {"functions": functions, "parameters": parameters, "attributes": attributes}
