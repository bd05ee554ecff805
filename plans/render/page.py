"""A plain page around plots and tables: one file that loads nothing else and runs no script."""

from __future__ import annotations

from html import escape

_STYLE = """
body { font: 15px/1.5 ui-sans-serif, system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h2 { font-size: 1rem; margin: 2rem 0 0.5rem; }
p { margin: 0.25rem 0; }
pre { overflow-x: auto; }
table { border-collapse: collapse; margin: 0.75rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: 0.15rem 0.75rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; }
tr.chosen { font-weight: 600; }
svg { max-width: 100%; height: auto; }
"""


def page(title: str, body: str) -> str:
    """A page of HTML.

    Args:
        title: as text.
        body: as markup.
    """
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
