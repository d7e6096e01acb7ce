"""Attribution of package errors to the file at fault. A module of its own: two runtimes use it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skillbus.embedder.domain.errors import ModelFilesBrokenError, ModelUnavailableError


@contextmanager
def blame_file(path: Path) -> Iterator[None]:
    """Turn any error inside, except ModelUnavailableError, into ModelFilesBrokenError for `path`.

    tokenizers raises plain Exception, and onnxruntime its own classes directly below it.
    """
    try:
        yield
    except ModelUnavailableError:
        raise
    except Exception as error:
        raise ModelFilesBrokenError(path, str(error) or repr(error)) from error
