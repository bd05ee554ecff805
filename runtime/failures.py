"""Exceptions of libraries as coded errors, by their kind: where no code expected them, they come here.

An exception is not a bug of stateplan where the world is to blame: Spark's process has ended, a server is not there,
memory or a disk is full, Spark or the library of a server fails. What the engines in this process raise (Polars, Arrow,
sqlglot), and Python's own exceptions, are bugs.

Codes: RUN001, RUN019, RUN031, RUN094 to RUN096; BUG000.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stateplan.common.disk import full_disk
from stateplan.common.errors import RunError, StateplanError, find_encoded
from stateplan.common.failure_reasons import REASONS, kind_of, links, module_of, text_of
from stateplan.runtime.spark.jvm_loss import is_of_spark, jvm_loss, jvm_loss_behind
from stateplan.runtime.spark.tweaks import reason

_OURS = {"stateplan", "polars", "pyo3_runtime", "pyarrow", "numpy", "pandas", "sqlglot", "pydantic", "pydantic_core"}
"""What computes in this process: it fails when it is used wrongly."""

_NETWORK = {"http", "ssl", "socket", "urllib"}
"""Python's own modules that speak with servers."""


def known_error(failure: BaseException) -> StateplanError | None:
    """The coded error for an exception of a library, or for one that the machine or a server is to blame for; None for
    any other."""
    if isinstance(failure, StateplanError):
        return failure
    chain = list(links(failure))
    coded_link = next((link for link in chain if isinstance(link, StateplanError)), None) or next(
        (encoded_error for link in chain if (encoded_error := find_encoded(text_of(link)))), None
    )
    if coded_link is not None:
        return coded_link
    of_spark = any(map(is_of_spark, chain))
    jvm_error = jvm_loss_behind(failure) if of_spark else jvm_loss()
    if jvm_error is not None and (of_spark or any(isinstance(link, OSError) for link in chain)):
        return jvm_error
    first_text = next((text for link in chain if (text := text_of(link))), "")
    summary = f"{type(failure).__name__}: {reason(first_text)}" if first_text else type(failure).__name__
    if any(isinstance(link, MemoryError) or _lacks_memory(link) for link in chain) or "OutOfMemoryError" in first_text:
        return RunError("RUN096", what=summary[:300])
    foreign = next((link for link in chain if _is_foreign(link)), None)
    if foreign is None:
        return None
    full = full_disk(first_text, Path(tempfile.gettempdir()))
    if full is not None:
        return full
    kind = kind_of(failure)
    if kind is not None:
        return RunError("RUN094", why=REASONS[kind], what=summary[:300])
    if of_spark:
        return RunError("RUN095", what=summary[:300], failure="Spark failed")
    if isinstance(foreign, OSError):
        return RunError("RUN095", what=summary[:300], failure="the operating system refused")
    return RunError("RUN095", what=summary[:300], failure=f"the library {module_of(foreign)} failed")


def _lacks_memory(failure: BaseException) -> bool:
    """Whether a library could not be loaded for want of memory."""
    text = text_of(failure) if isinstance(failure, ImportError) else ""
    return "failed to map segment" in text or "annot allocate memory" in text


def as_error(failure: BaseException, brief: bool = False) -> StateplanError:
    """The error to report for an exception that no code caught: :func:`known_error`, or BUG000.

    Args:
        failure: the exception.
        brief: whether BUG000 gives no more than its class: the text may be of somebody else's request.
    """
    error = known_error(failure)
    if error is None:
        name = type(failure).__name__
        error = StateplanError("BUG000", what=name if brief else f"{name}: {failure}".splitlines()[0][:300])
    if error is not failure and error.__cause__ is None:
        error.__cause__ = failure
    return error


@contextmanager
def coded_error() -> Iterator[None]:
    """Raises what a library raises within as :func:`known_error` has it. Also a decorator."""
    try:
        yield
    except StateplanError:
        raise
    except Exception as failure:
        error = known_error(failure)
        if error is None:
            raise
        raise error from failure


def _is_foreign(failure: BaseException) -> bool:
    """Whether its class is not one of Python's own or of an engine; the system's errors are not of Python."""
    if isinstance(failure, OSError) or (isinstance(failure, UnicodeError) and "'idna' codec" in text_of(failure)):
        return True  # the second says that no host can have such a name
    module = module_of(failure)
    return module in _NETWORK or (
        module not in _OURS and module != "builtins" and module not in sys.stdlib_module_names
    )
