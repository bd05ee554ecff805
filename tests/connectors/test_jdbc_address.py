"""URLs of the connector ``jdbc``, which mean what they mean to PostgreSQL's JDBC driver."""

from __future__ import annotations

import pytest

from stateplan.common.errors import OptionError
from stateplan.connectors.jdbc.address import server_of
from stateplan.connectors.jdbc.postgres import Server, rows
from tests.support.postgres import PASSWORD, USER, Database


def server(url: str, properties: dict[str, str] | None = None, user: str | None = "me") -> Server:
    return server_of(url, user, "secret", properties or {}, 60_000, "the test")


@pytest.mark.parametrize(
    ("url", "host", "port", "database"),
    [
        ("jdbc:postgresql:shop", "localhost", "5432", "shop"),
        ("jdbc:postgresql:", "localhost", "5432", "me"),
        ("jdbc:postgresql:/", "localhost", "5432", "me"),
        ("jdbc:postgresql:/?ssl=false", "localhost", "5432", "me"),
        ("jdbc:postgresql://", "localhost", "5432", "me"),
        ("jdbc:postgresql:///", "localhost", "5432", "me"),
        ("jdbc:postgresql:///shop", "localhost", "5432", "shop"),
        ("jdbc:postgresql://db", "db", "5432", "me"),
        ("jdbc:postgresql://db/", "db", "5432", "me"),
        ("jdbc:postgresql://db:5433/", "db", "5433", "me"),
        ("jdbc:postgresql://:5433/shop", "localhost", "5433", "shop"),
        ("jdbc:postgresql://[::1]/shop", "::1", "5432", "shop"),
        ("jdbc:postgresql://a:1,b,[::2]:3/shop", "a,b,::2", "1,5432,3", "shop"),
        ("jdbc:postgresql://db/my%2Fshop+%2B", "db", "5432", "my/shop +"),
        ("jdbc:postgresql:shop?user=you", "localhost", "5432", "shop"),
        ("jdbc:postgresql:?user=you", "localhost", "5432", "you"),
    ],
)
def test_what_a_url_leaves_out(url: str, host: str, port: str, database: str) -> None:
    found = server(url)
    assert (found.host, found.port, found.database) == (host, port, database)


def test_a_service_says_what_the_url_leaves_out() -> None:
    found = server("jdbc:postgresql:?service=shop", user=None)
    assert (found.host, found.database) == (None, None)
    assert not {"host", "port", "dbname"} & set(found._conninfo)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("jdbc:postgresql:/shop", "OPT145"),
        ("jdbc:postgresql://db/shop/orders", "OPT145"),
        ("jdbc:postgresql://db:0/shop", "OPT145"),
        ("jdbc:postgresql://db:x/shop", "OPT145"),
        ("jdbc:postgresql://::1/shop", "OPT145"),
        ("jdbc:postgresql://db/shop?conectTimeout=1", "OPT146"),
        ("jdbc:postgresql://db/shop?PGHOST=other", "OPT146"),
        ("jdbc:postgresql://db/shop?targetServerType=preferPrimary", "OPT146"),
        ("jdbc:postgresql://db/shop?tcpKeepAlive=yes", "OPT146"),
        ("jdbc:postgresql://db/shop?sslmode=verify", "OPT146"),
        ("jdbc:postgresql://db/shop?connectTimeout=soon", "OPT146"),
        ("jdbc:postgresql://db/shop?connect_timeout=", "OPT146"),
    ],
)
def test_urls_that_are_refused(url: str, code: str) -> None:
    with pytest.raises(OptionError) as caught:
        server(url)
    assert caught.value.code == code
    if "conect" in url:
        assert "did you mean 'connectTimeout'" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("query", "properties", "parameters"),
    [
        ("ssl", {}, {"sslmode": "verify-full"}),
        ("ssl=true", {"sslmode": "require"}, {"sslmode": "require"}),
        ("sslmode=require", {"sslmode": "disable"}, {"sslmode": "require"}),
        ("ApplicationName=a+b%2B", {}, {"application_name": "a b+"}),
        ("connectTimeout=7&socketTimeout=9&prepareThreshold=0", {}, {"connect_timeout": "7"}),
        ("loginTimeout=1.5&gssEncMode=allow", {}, {"connect_timeout": "2", "gssencmode": "prefer"}),
        ("loadBalanceHosts&tcpKeepAlive=False", {}, {"load_balance_hosts": "random", "keepalives": "0"}),
        ("targetServerType=preferSlave", {}, {"target_session_attrs": "prefer-standby"}),
    ],
)
def test_properties_of_the_driver(query: str, properties: dict[str, str], parameters: dict[str, str]) -> None:
    assert server(f"jdbc:postgresql://db/shop?{query}", properties).parameters == parameters


def test_who_connects() -> None:
    """The URL comes first, then the options, then the properties."""
    other = {"user": "other", "password": "of other"}
    found = server("jdbc:postgresql://db/shop?user=you", other)
    assert (found.user, found.password) == ("you", "secret")
    assert server("jdbc:postgresql://db/shop", other).user == "me"
    found = server_of("jdbc:postgresql://db/shop", None, None, other, 60_000, "the test")
    assert (found.user, found.password) == ("other", "of other")


def test_a_search_path_and_options_go_together(database: Database) -> None:
    database.execute('CREATE SCHEMA "My Shop"')
    url = f"{database.url}?options=-c+statement_timeout%3D5s&currentSchema=%22My+Shop%22,public"
    given = server_of(url, USER, PASSWORD, {}, 60_000, "the test")
    with given.connection() as connection:
        found = rows(connection, "SELECT current_schema()::text, current_setting('statement_timeout')")
    assert found == [("My Shop", "5s")]
