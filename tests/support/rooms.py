"""The packages that stateplan is made of."""

ROOMS = (
    "common",
    "functions",
    "connectors",
    "execnodes",
    "runtime",
    "evolution",
    "plans",
    "planner",
    "session",
    "testing",
    "review",
    "editor",
    "gateway",
    "cli",
)
"""Each may import itself and those before it."""
