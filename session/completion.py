"""What may appear at a position of a statement that is being written.

Candidates replace the word before the position: what stands there since the last blank, quote, ``,``, ``(`` or ``=``.
Tables come with their whole name, as Flink's gateway returns them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import Option, OptionType
from stateplan.common.settings import OPTIONS
from stateplan.connectors.registry import connectors, formats_of, known_connector, known_format
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import CatalogObject, ObjectIdentifier
from stateplan.planner.dialect.keywords import KEYWORDS, RESERVED
from stateplan.session.host import PLAN_SCHEME
from stateplan.session.job_alteration import ALTER_OPTIONS
from stateplan.session.session import Session

MAX_CANDIDATES = 200
"""More candidates than this are not given."""

_TOKEN = re.compile(
    r"""
    (?P<skip>\s+ | --[^\n]* | /\*(?!\+).*?\*/)
  | '(?P<text>(?:[^']|'')*)'
  | (?P<name>`(?:[^`]|``)*` | \w[\w$]*)
  | '(?P<open>(?:[^']|'')*)$
  | (?P<half>`[^`]*)$
  | (?P<other>.)
""",
    re.S | re.X,
)

_BARE_KEY = re.compile(r"\b(?:SET|RESET)\s+([\w.-]*)$", re.I)
"""The key of an option may be written without quotes."""

_BARE_SELECTOR = re.compile(
    r"\bALTER\s+PLAN\s+'((?:[^']|'')*)'\s+SET\s+TTL\s.*\bFOR\s+(?:.*,\s*)?([^\s,']*)$", re.I | re.S
)
"""The plan and the selector of ALTER PLAN, which needs no quotes either."""

_FIRST = (
    *("ALTER", "BEGIN", "COMPILE", "CREATE", "DESCRIBE", "DROP", "END", "EXECUTE", "EXPLAIN", "INSERT", "LOAD"),
    *("REPLACE", "RESET", "ROLLBACK", "SELECT", "SET", "SHOW", "STATEMENT", "STOP", "UNLOAD", "USE", "VALUES", "WITH"),
)
_NEXT = {
    "ALTER": "JOB PLAN TABLE VIEW FUNCTION",
    "BEGIN": "STATEMENT",
    "COMPILE": "PLAN AND",
    "CREATE": "CATALOG DATABASE FUNCTION TABLE TEMPORARY VIEW",
    "CREATE TEMPORARY": "FUNCTION SYSTEM TABLE VIEW",
    "DROP": "CATALOG DATABASE FUNCTION TABLE TEMPORARY VIEW",
    "DROP TEMPORARY": "FUNCTION SYSTEM TABLE VIEW",
    "EXECUTE": "INSERT PLAN SELECT STATEMENT",
    "EXPLAIN": "CHANGELOG_MODE CREATE ESTIMATED_COST INSERT JSON_EXECUTION_PLAN PLAN PLAN_ADVICE SELECT STATEMENT",
    "INSERT": "INTO",
    "LOAD": "MODULE",
    "REPLACE": "TABLE",
    "SHOW": "CATALOGS COLUMNS CREATE CURRENT DATABASES FULL FUNCTIONS JARS JOBS MODELS MODULES OPTIONS PARTITIONS "
    "PROCEDURES TABLES USER VIEWS",
    "SHOW CREATE": "CATALOG TABLE VIEW",
    "SHOW FULL": "MODULES",
    "SHOW CURRENT": "CATALOG DATABASE",
    "STATEMENT": "SET",
    "BEGIN STATEMENT": "SET",
    "EXECUTE STATEMENT": "SET",
    "EXPLAIN STATEMENT": "SET",
    "STOP": "JOB",
    "UNLOAD": "MODULE",
}
"""The words after the first words of a statement."""

_WITH_QUERIES = (
    "SELECT",
    "WITH",
    "INSERT",
    "EXPLAIN",
    "COMPILE",
    "EXECUTE",
    "CREATE",
    "REPLACE",
    "VALUES",
    "STATEMENT",
)
_TABLE_AFTER = ("FROM", "JOIN", "INTO", "TABLE", "VIEW", "DESCRIBE", "DESC", "EXTENDED", "LIKE")


@dataclass(frozen=True)
class _Token:
    """``kind`` is ``text``, ``name``, ``open`` (a text that does not end), ``half`` (a name) or ``other``."""

    kind: str
    value: str
    start: int

    @property
    def word(self) -> str:
        return self.value.upper() if self.kind in ("name", "other") else ""


def complete(session: Session, statement: str, position: int) -> list[str]:
    """The candidates at ``position``, a number of characters of ``statement``: columns before functions
    before keywords, at most :data:`MOST`."""
    text_before = statement[: max(0, position)]
    tokens = list(_tokens(text_before))
    for i in range(len(tokens) - 1, -1, -1):
        if tokens[i].value == ";" and tokens[i].kind == "other":
            tokens = tokens[i + 1 :]
            break
    key = _BARE_KEY.search(text_before)
    if key is not None and key.start() <= (tokens[0].start if tokens else 0):
        return _starting(OPTIONS, key[1])[:MAX_CANDIDATES]
    bare = _BARE_SELECTOR.search(text_before)
    if bare is not None and bare.start() <= (tokens[0].start if tokens else 0):
        return _starting(_selectors(session, bare[1].replace("''", "'")), bare[2])[:MAX_CANDIDATES]
    current = tokens.pop() if tokens and _is_begun(tokens[-1], text_before) else None
    try:
        candidates = _candidates(session, tokens, current, statement, current.value if current else "")
        return list(dict.fromkeys(candidates))[:MAX_CANDIDATES]
    except StateplanError:  # of a catalog that does not answer, or of a definition that cannot be read
        return []


def _is_begun(token: _Token, text_before: str) -> bool:
    """Whether the last token is what is being written."""
    return token.kind in ("open", "half") or (token.kind == "name" and not text_before[-1:].isspace())


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "skip"
        if kind != "skip":
            yield _Token(kind, match[kind], match.start())


def _candidates(
    session: Session, tokens: list[_Token], current: _Token | None, statement: str, partial: str
) -> Iterable[str]:
    words = [t.word for t in tokens]
    if current is not None and current.kind == "open":
        return _in_text(session, tokens, partial)
    first = words[0] if words else ""
    if not words:
        return _starting(_FIRST, partial)
    if words[:2] == ["ALTER", "JOB"]:
        after = {"USING": "PLAN", "SET": "TTL"}.get(words[-1], "")
        follows = {3: "COMMIT ROLLBACK SET USING", 4: after, 6: "" if "SET" in words else "WITH"}.get(len(words), "")
        return _starting(follows.split(), partial)
    if words[:2] == ["ALTER", "PLAN"]:
        follows = {3: "SET", 4: "TTL"}.get(len(words)) or ("FOR" if words[-2] == "TTL" else "TTL")
        return _starting([follows] if words[-1] in ("", "SET", ",") else (), partial)
    followers = _NEXT.get(" ".join(words)) if len(words) <= 2 else None
    if words == ["USE"]:
        return [*_starting(["CATALOG", "MODULES"], partial), *_starting(session.catalog.list_databases(), partial)]
    if words == ["USE", "CATALOG"]:
        return _starting(session.catalog.list_catalogs(), partial)
    path, lead = _path(tokens)
    if _wants_table(lead):
        return _tables(session, path, partial)
    if first == "CREATE" and lead[-1] in ("TABLE", "VIEW", "EXISTS"):
        return []
    if followers is not None and not path:
        return _starting(followers.split(), partial)
    if first not in _WITH_QUERIES:
        return _starting(KEYWORDS, partial) if partial else []
    scope = _scope(session, statement)
    if path:
        alias = ".".join(map(_quoted_name, path))
        return [f"{alias}.{name}" for name in _starting(map(_quoted_name, _columns_of(scope, path[-1])), partial)]
    columns = _starting((_quoted_name(name) for item in scope for name in _names(item[1])), partial)
    aliases = _starting((_quoted_name(alias) for alias, _ in scope if alias), partial)
    if not partial:
        return columns
    return [*columns, *aliases, *_starting(_functions(session), partial), *_starting(KEYWORDS, partial)]


def _starting(names: Iterable[str], partial: str) -> list[str]:
    """Those that begin with ``partial``, in capital letters or small ones."""
    start = partial.strip("`").lower()
    return sorted(name for name in names if name.strip("`").lower().startswith(start))


def _quoted_name(name: str) -> str:
    if re.fullmatch(r"[A-Za-z_]\w*", name) and name.upper() not in RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


# names


def _path(tokens: Sequence[_Token]) -> tuple[list[str], list[str]]:
    """The names with dots that end the tokens, and the words before them."""
    end = len(tokens)
    names: list[str] = []
    while end >= 2 and tokens[end - 1].value == "." and tokens[end - 2].kind == "name":
        names.insert(0, tokens[end - 2].value.strip("`"))
        end -= 2
    return names, [t.word for t in tokens[:end]]


def _wants_table(lead: Sequence[str]) -> bool:
    """Whether a table's name comes after these words."""
    last = lead[-1] if lead else ""
    if last in ("FROM", "IN") and lead[:1] == ["SHOW"]:
        return "COLUMNS" in lead
    if lead[:2] == ["SHOW", "PARTITIONS"]:
        return len(lead) == 2
    if last == "TABLE" and lead[:1] == ["CREATE"]:
        return False
    if last == "VIEW" and lead[0] == "CREATE":
        return False
    if last == "EXISTS":
        return lead[0] in ("DROP", "ALTER") and ("TABLE" in lead or "VIEW" in lead)
    if last == ",":
        return _last_clause(lead) == "FROM"
    return last in _TABLE_AFTER


def _last_clause(lead: Sequence[str]) -> str:
    """The clause of a query that the words are in."""
    depth = 0
    for word in reversed(lead):
        depth += {")": 1, "(": -1}.get(word, 0)
        if depth < 0:
            return ""
        if depth == 0 and word in ("FROM", "SELECT", "WHERE", "BY", "ON", "HAVING", "WITH", "JOIN", "SET", "VALUES"):
            return word
    return ""


def _tables(session: Session, path: Sequence[str], partial: str) -> Iterator[str]:
    """Whole names of the tables whose name, with ``path`` before it, begins with ``partial``."""
    catalog = session.catalog
    start = partial.strip("`").lower()
    for name in catalog.list_catalogs():
        for database in _databases(catalog, name, path):
            is_current = (name, database) == (catalog.current_catalog, catalog.current_database)
            if list(path) not in ([], [database], [name, database], [name]) or (not path and not is_current):
                continue
            for item in catalog.list_tables(name, database) if list(path) != [name] else ():
                if item.lower().startswith(start):
                    yield _is_whole(ObjectIdentifier(name, database, item))
            if list(path) == [name] and database.lower().startswith(start):
                yield f"{_quoted_name(name)}.{_quoted_name(database)}"
        if not path and partial and name.lower().startswith(start):
            yield _quoted_name(name)
    if not path and partial:
        yield from _starting(map(_quoted_name, catalog.list_databases()), partial)


def _databases(catalog: CatalogManager, name: str, path: Sequence[str]) -> list[str]:
    """The databases of a catalog that may be meant. One that has to ask a server is asked only if it is the current
    one, or named."""
    if not (catalog.is_local(name) or name == catalog.current_catalog or name in path[:1]):
        return []
    if (path[:1] == [name] and len(path) == 2) or (not path and name == catalog.current_catalog):
        return [path[1] if path else catalog.current_database]
    return catalog.list_databases(name)


def _is_whole(identifier: ObjectIdentifier) -> str:
    return ".".join(map(_quoted_name, (identifier.catalog, identifier.database, identifier.name)))


_PART = r"(?:`[^`]+`|\w+)"
_PATH = rf"{_PART}(?:\.{_PART}){{0,2}}"
_ALIAS = rf"(?:\s+(?:AS\s+)?({_PART}))?"
_ITEM = _PATH + _ALIAS.replace(f"({_PART})", _PART)
_USE = re.compile(rf"\b(?:FROM|JOIN|INTO)\s+({_ITEM}(?:\s*,\s*{_ITEM})*)", re.I)


def _scope(session: Session, statement: str) -> list[tuple[str, CatalogObject]]:
    """The tables that a statement names, each by its alias or its own name."""
    tables = []
    for table_list in _USE.findall(statement):
        for path, alias in re.findall(f"({_PATH}){_ALIAS}", table_list, re.I):
            parts = [part.strip("`") for part in re.findall(_PART, path)]
            item = session.catalog.find(parts)
            if item is not None:
                own = alias.strip("`")
                tables.append((own if own and own.upper() not in KEYWORDS else parts[-1], item))
    return tables


def _names(item: CatalogObject) -> list[str]:
    return [column.name for column in item.schema.columns]


def _columns_of(scope: Iterable[tuple[str, CatalogObject]], alias: str) -> list[str]:
    return [name for table_alias, item in scope if table_alias == alias for name in _names(item)]


def _functions(session: Session) -> list[str]:
    from stateplan.functions.aggregates import aggregates
    from stateplan.functions.table import functions

    names = {row.name for row in functions() if row.supported} | {row.name for row in aggregates() if row.supported}
    names = {name for name in names if name.isidentifier()}
    return [*names, *session.catalog.functions.names(session.catalog.current_catalog, session.catalog.current_database)]


# inside a text


def _in_text(session: Session, tokens: Sequence[_Token], partial: str) -> Iterable[str]:
    words = [t.word for t in tokens]
    first = words[0] if words else ""
    if first in ("SET", "RESET"):
        if len(tokens) == 1:
            return _starting(OPTIONS, partial)
        return _starting(_values(OPTIONS.get(tokens[1].value)), partial)
    if words[-1:] == ["JOB"]:
        return _starting((entry.id for entry in session.jobs.entries()), partial)
    if words[:2] == ["ALTER", "PLAN"] and "FOR" in words:
        return _starting(_selectors(session, tokens[2].value), partial)
    if "PLAN" in words and words[-1] in ("PLAN", "FROM"):
        return _plans(session, partial)
    opening = _opening(words)
    if (
        opening is not None
        and words[opening - 1 : opening]
        and words[opening - 1] in ("WITH", "OPTIONS", "SET", "RESET")
    ):
        inside = tokens[opening + 1 :]
        return _options_of_job(inside, partial) if words[:2] == ["ALTER", "JOB"] else _table_options(inside, partial)
    return []


def _opening(words: Sequence[str]) -> int | None:
    """The parenthesis that is open at the end."""
    depth = 0
    for i in range(len(words) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(words[i], 0)
        if depth < 0:
            return i
    return None


def _table_options(inside: Sequence[_Token], partial: str) -> Iterable[str]:
    """Keys or values in the list of a table's options."""
    texts = [t.value if t.kind == "text" else t.word for t in inside]
    values = {texts[i - 1]: texts[i + 1] for i in range(1, len(texts) - 1) if texts[i] == "="}
    connector, fmt = known_connector(values), known_format(values)
    if texts[-1:] == ["="]:
        key = texts[-2] if len(texts) > 1 else ""
        if key == "connector":
            return _starting((c.name for c in connectors() if c.name[:1].isalpha()), partial)
        if key == "format" and connector is not None:
            return _starting((name for role in connector.roles for name in formats_of(connector, role)), partial)
        options: list[Option] = list(connector.options) if connector is not None else []
        return _starting(_values(next((o for o in options if o.key == key), None)), partial)
    keys = ["connector"]
    if connector is not None:
        keys += [option.key for option in connector.options if "#" not in option.key]
        keys += ["format"] if connector.formatted else []
    if fmt is not None:
        keys += [f"{fmt.name}.{option.key}" for option in fmt.options]
    return _starting((key for key in keys if key not in values), partial)


def _options_of_job(inside: Sequence[_Token], partial: str) -> Iterable[str]:
    """Keys or values in the list of options of ALTER JOB."""
    if len(inside) > 1 and inside[-1].value == "=":
        return _starting(_values(ALTER_OPTIONS.get(inside[-2].value)), partial)
    return _starting(ALTER_OPTIONS, partial)


def _values(option: Option | None) -> Sequence[str]:
    if option is None:
        return ()
    return ("true", "false") if option.type is OptionType.BOOLEAN else option.values


def _plans(session: Session, partial: str) -> list[str]:
    """Folders and files of plans, and the names of those that the host keeps."""
    plan_names = [PLAN_SCHEME + name for name in session.host.plan_names()]
    folder, _, start = partial.rpartition("/")
    root = folder or ("/" if partial.startswith("/") else ".")
    paths: list[str] = []
    try:
        entries = sorted(os.scandir(session.host.plan_file(root)), key=lambda e: e.name)[:10_000]
    except (OSError, ValueError, StateplanError):
        entries = []
    for entry in entries:
        if entry.name.startswith(start) and (start or not entry.name.startswith(".")):
            name = partial[: len(partial) - len(start)] + entry.name
            if entry.is_dir():
                paths.append(f"{name}/")
            elif entry.name.endswith(".json"):
                paths.append(name)
    return [*(name for name in plan_names if name.startswith(partial)), *paths]


def _selectors(session: Session, plan: str) -> list[str]:
    from stateplan.plans.document import PlanDocument
    from stateplan.plans.selectors import Selectors

    try:
        selectors = Selectors(PlanDocument.load(session.host.plan_file(plan)))
    except StateplanError:
        return []
    name: Callable[..., str] = selectors.name_alone
    return [name(view) for view in selectors.views]
