"""Which file is at fault when a package cannot read it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skillbus.embedder.domain.errors import ModelFilesBrokenError, ModelUnavailableError


@contextmanager
def blamed_on(path: Path) -> Iterator[None]:
    """What fails inside becomes ModelFilesBrokenError for `path`, except for ModelUnavailableError.

    tokenizers raises plain Exception, and onnxruntime classes of its own right below it.
    """
    try:
        yield
    except ModelUnavailableError:
        raise
    except Exception as error:
        raise ModelFilesBrokenError(path, str(error) or repr(error)) from error
