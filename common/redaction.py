"""Secrets in texts: which options have one as their value, and texts without them. Imports nothing of the project."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from typing import TypeAlias

SENSITIVE = (
    *("password", "secret", "token", "credential", "apikey", "api-key", "api.key", "access-key", "access.key"),
    *("private-key", "private.key", "service-key", "account.key", "auth-params", "basic-auth", "jaas.config"),
    *("http-headers", "passphrase"),
    *("passwd", "authorization", "sas-key", "key.pem", "keystore.key"),
)
"""An option whose key has one of these in it has a secret as its value; ``.``, ``-``, ``_`` and nothing between two
words are alike. Source: Flink's ``GlobalConfiguration``, all but the last line, which Delta, HTTP and Kafka
have. ``password`` and ``secret`` with a typo count too, and so do ``pass``, ``pwd`` and ``pw`` at the end of a key: no
connector has such options, and messages that refuse them show the statement."""

MASK = "******"
"""Stands for a secret. Source: Flink's ``GlobalConfiguration``."""

SHORT = 3
"""A secret of so few characters is in too many texts by chance."""

Span: TypeAlias = tuple[int, int]
"""Characters of a text, from the first to the one behind the last."""

_WORD = r"(?<![a-z]){}(?![a-z])"


def _misspelled(word: str) -> Iterator[str]:
    """Patterns of the word with a letter missing, added or wrong, or with two swapped."""
    for i in range(len(word)):
        before, letter, after = word[:i], word[i], word[i + 1 :]
        yield from (before + after, f"{before}[a-z]{letter}{after}", f"{before}[a-z]{after}")
        yield before + after[:1] + letter + after[1:]


@cache
def _key() -> re.Pattern[str]:
    words = (re.sub("[.-]", "[._-]?", word) for word in SENSITIVE)
    typos = (_WORD.format(f"(?:{'|'.join(_misspelled(word))})") for word in ("password", "secret"))
    return re.compile("|".join([*words, *typos, r"(?<![a-z])(?:pass|pwd|pw)(?=['\"]|$)"]), re.I)


# Patterns are compiled when they are first used: most commands never do.
_REFERENCE = r"\$\{\w+:[^}]*\}"
_REFERRED = "\0"
_LITERAL = "[^\0]+"
_LITERALS = frozenset({"", "true", "false"})
"""Values that are not secret, whatever the option."""

_SQL = r"(?='([^'\n]{1,300})'(\s*=\s*|\s+)'([^']*(?:''[^']*)*))"
"""Also pairs that begin within another one: which quote opens a text is not known in a part of a statement."""
_WITH = r"(?i)\bWITH\s*\("
_LOOSE = r"(?<=[(,])\s*([`\"']?)([\w.-]{1,300})\1\s*=\s*(?:'([^']*(?:''[^']*)*)|\"([^\"\n]*)|([^\s,)'\"]+))"
"""A pair of WITH whose quotes are not those of SQL, or are missing."""
_JSON = r"(?s)([\"'])([\w.-]{1,300})\1(?:\s*:|(?<=\")\s*,)\s*([\"'])((?:(?!\3)[^\\]|\\.)*)"
_BARE = r"(?i)\bSET\s+([\w.-]+)\s*=\s*([^\s;']+)"
_ARGUMENT = r"(?<![\w.-])-D\s*([\w.-]+)=(\S+)"
_HINTS = r"options:\{([^{}]*)\}"
_HINT = r"(?s)([\w.-]+)=(.*?)(?=, [\w.-]+=|$)"
_USER = r"(?<=://)[^/\s'\"?#]+(?=@)"
_LOGIN = r"://[^/@\s'\"?#:]*:([^/\s'\"?#]+)(?=@)"
_HOSTS = r"(?i)(host|hostname|servers)$"
_AT_HOST = r"(?:^|,)\s*[^\s:/@,'\"=]+:([^\s/@'\"]+)(?=@)"
_PARAMETER = r"(?<![\w.-])([\w.-]{1,100})=(\\?\"[^\"\\]*|[^&;,\s}\"'\\]+)"
_IN_URL = r"[?&;{]\s*$"
_OTHER_WORDS = ("://", "pwd=", "sig=")


def is_secret(key: str) -> bool:
    """Whether the value of an option of this name is a secret."""
    return _key().search(key) is not None


def secret_parts(key: str, value: str) -> list[Span]:
    """What is secret in the value of an option: all of it, or passwords in a URL and the like. References such as
    ``${env:NAME}`` are not, and neither is what is beside them in a secret option."""
    return _parts(key, _neutral(value))


def _neutral(text: str) -> str:
    """The text with a character that nothing else has in the place of references."""
    return re.sub(_REFERENCE, lambda match: _REFERRED * len(match[0]), text.replace(_REFERRED, " "))


def _parts(key: str, value: str) -> list[Span]:
    """See :func:`secret_parts`; of a value from :func:`_neutral`."""
    if is_secret(key) and _REFERRED not in value:
        return [] if value.lower() in _LITERALS else [(0, len(value))]
    literal = (
        (start + part.start(), start + part.end())
        for start, end in _places(key, value)
        for part in re.finditer(_LITERAL, value[start:end])
    )
    return [(start, end) for start, end in literal if value[start:end].lower() not in _LITERALS]


def _places(key: str, value: str) -> list[Span]:
    """Where passwords are in the value of an option that is not a secret as a whole, be they written as references."""
    spans = [match.span(1) for match in re.finditer(_LOGIN, value)]
    if re.search(_HOSTS, key):
        spans += [match.span(1) for match in re.finditer(_AT_HOST, value)]
    return _union(spans + [_inside_quotes(m) for m in re.finditer(_PARAMETER, value) if _is_parameter(m[1])])


def _inside_quotes(match: re.Match[str]) -> Span:
    return match.end(2) - len(match[2].lstrip('\\"')), match.end(2)


def _is_parameter(name: str) -> bool:
    return is_secret(name) or name.lower() in ("pwd", "sig")


def redacted_value(key: str, value: str) -> str:
    """The value of an option as it is shown."""
    return replace_spans(value, secret_parts(key, value), lambda text: MASK)


def outline(key: str, value: str) -> str:
    """The value of an option with stars for secrets, be they written as references: what stays when a secret changes,
    or how it is written."""
    return MASK if is_secret(key) else replace_spans(value, _places(key, _neutral(value)), lambda text: MASK)


def redacted_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options as they are shown."""
    return {key: redacted_value(key, value) for key, value in options.items()}


def redacted(text: str) -> str:
    """A text, such as a statement, a plan or a message, without the values of secret options in it, and without what is
    before the host of a URL."""
    return replace_spans(text, secret_spans(text), lambda secret: MASK)


def masked(text: str) -> str:
    """The same with as many stars as characters, so that every other character stays where it is."""
    return replace_spans(text, secret_spans(text), lambda secret: re.sub(r"[^\r\n]", "*", secret))


def secrets_of(options: Mapping[str, str]) -> set[str]:
    """What is secret in the values of options, none of which is a reference, for :func:`without`."""
    return {value[start:end] for key, value in options.items() for start, end in secret_parts(key, value)}


def without(text: str, secrets: Iterable[str]) -> str:
    """A text without these secrets, the longest first: one may be a part of another. Short ones count where they are
    alone: stars within words would reveal them."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        alone = rf"(?<!\w){re.escape(secret)}(?!\w)"
        text = text.replace(secret, MASK) if len(secret) > SHORT else re.sub(alone, MASK, text)
    return text


def without_secrets(text: str, source: str) -> str:
    """A text about ``source`` without the secrets that stand there."""
    for secret in _secrets_of(source):
        text = text.replace(f"'{secret}'", f"'{MASK}'")
        if len(secret) > SHORT:
            text = text.replace(secret, MASK)
    return text


@lru_cache(maxsize=4)
def _secrets_of(source: str) -> tuple[str, ...]:
    secrets = {source[start:end] for start, end in secret_spans(source)}
    return tuple(sorted({*secrets, *(text.replace("''", "'") for text in secrets)}, key=len, reverse=True))


@lru_cache(maxsize=4)
def secret_spans(text: str) -> tuple[Span, ...]:
    """Where secrets are in a text, in order; they do not overlap."""
    if _key().search(text) is None and not any(word in text for word in _OTHER_WORDS):
        return ()
    return tuple(_union(_spans(_neutral(text))))


def _spans(text: str) -> Iterator[Span]:
    pairs = [(match[1], match.span(3)) for match in re.finditer(_SQL, text) if match[2].strip() or is_secret(match[1])]
    pairs += [(match[2], match.span(4)) for match in re.finditer(_JSON, text)]
    pairs += [(match[1], match.span(2)) for match in (*re.finditer(_BARE, text), *re.finditer(_ARGUMENT, text))]
    lists = [match.end() - 1 for match in re.finditer(_WITH, text)]
    for start, end in pairwise([*lists, len(text)]):
        inside = re.compile(_LOOSE).finditer(text, start, end)
        pairs += [(match[2], match.span(match.lastindex or 0)) for match in inside]
    for hints in re.finditer(_HINTS, text):
        inside = re.compile(_HINT).finditer(text, hints.start(1), hints.end(1))
        pairs += [(match[1], match.span(2)) for match in inside]
    for key, (start, end) in pairs:
        yield from ((start + first, start + last) for first, last in _parts(key, text[start:end]))
    yield from (match.span() for match in re.finditer(_USER, text) if match[0].strip(_REFERRED + ":"))
    for match in re.finditer(_PARAMETER, text):
        is_quoted = match[2].lstrip("\\").startswith('"')
        if _is_parameter(match[1]) and (
            is_quoted or re.search(_IN_URL, text[max(0, match.start() - 5) : match.start()])
        ):
            span = _inside_quotes(match)
            if _REFERRED not in text[span[0] : span[1]]:
                yield span


def replace_spans(text: str, spans: Iterable[Span], new: Callable[[str], str]) -> str:
    """The text with others in place of some of its parts, which are in order."""
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], new(text[start:end])]
        at = end
    return "".join([*parts, text[at:]])


def _union(spans: Iterable[Span]) -> list[Span]:
    out: list[Span] = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if out and start < out[-1][1]:
            out[-1] = out[-1][0], max(end, out[-1][1])
        else:
            out.append((start, end))
    return out
