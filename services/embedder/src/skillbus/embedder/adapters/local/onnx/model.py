"""Sentence encoder in ONNX, from a directory with a graph, a tokenizer, and settings of sentence-transformers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.adapters.local.onnx.files import OnnxFiles, blame_file
from skillbus.embedder.adapters.local.onnx.settings import OnnxSettings, Pooling
from skillbus.embedder.domain.errors import ModelFilesBrokenError, ModelUnavailableError
from skillbus.embedder.domain.model import ModelSpec

if TYPE_CHECKING:
    from onnxruntime import InferenceSession  # type: ignore[import-untyped]  # the package carries no types
    from tokenizers import Tokenizer

_TYPES: Final[Mapping[str, type[np.integer]]] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids")
_POINTER: Final = b"version https://git-lfs.github.com/"
_USUAL_TOKENS: Final = 512
_ERRORS_ONLY: Final = 3
_PADDINGS: Final = ("[PAD]", "<pad>")


@dataclass(frozen=True, slots=True)
class _Loaded:
    session: "InferenceSession"
    tokenizer: "Tokenizer"
    pad_id: int
    inputs: Mapping[str, type[np.integer]]
    output: str
    pooling: Pooling | None
    """None if the graph pools."""


class OnnxModel:
    """Implementation of `BlockingModel`. A text's vector is the same in any batch up to float32 rounding."""

    def __init__(self, spec: ModelSpec, files: OnnxFiles, threads: int = 1) -> None:
        """Use `threads` for one call. A `spec.dim` of 0 accepts any width."""
        self.spec: Final = spec
        self._files = files
        self._threads = threads
        self._loaded: _Loaded | None = None

    def load(self) -> None:
        """Load the model. For a file of 90 MB that takes 0.2 s and 60 MB more than the file.

        Raises:
            ModelFilesBrokenError: a file is damaged, or gives vectors of other dimensions than registered.
            ModelUnavailableError: a package is missing, or the kind of model is not supported.
        """
        for path in self._files.paths:
            with blame_file(path), path.open("rb") as file:
                if file.read(len(_POINTER)) == _POINTER:
                    raise ModelFilesBrokenError(
                        path, "it is a Git LFS pointer instead of the file; fetch it with `git lfs pull`"
                    )
        settings = OnnxSettings.load(self._files.folder)
        with blame_file(self._files.tokenizer):
            tokenizer = self._load_tokenizer(settings)
        with blame_file(self._files.graph):
            loaded = self._load_graph(tokenizer, settings)
            width = _compute_rows(loaded, ["ready"]).shape[1]
        if self.spec.dim not in {0, width}:
            raise ModelFilesBrokenError(
                self._files.graph, f"it makes vectors of {width} dimensions, and {self.spec.dim} are registered"
            )
        self._loaded = loaded

    def embed(self, texts: Sequence[str], role: TextRole) -> NDArray[np.float32]:
        if self._loaded is None:
            raise ModelUnavailableError("the model is not loaded; call load() first")
        return _compute_rows(self._loaded, texts)

    def _load_tokenizer(self, settings: OnnxSettings) -> "Tokenizer":
        try:
            from tokenizers import Tokenizer  # noqa: PLC0415 - its memory is only for users of this model
        except ImportError as error:
            raise _missing_packages() from error
        tokenizer = Tokenizer.from_file(str(self._files.tokenizer))
        stated = tokenizer.truncation["max_length"] if tokenizer.truncation else None
        longest = self._files.max_tokens or settings.max_tokens or stated or settings.positions or _USUAL_TOKENS
        tokenizer.enable_truncation(min(longest, settings.positions or longest))
        return tokenizer

    def _load_graph(self, tokenizer: "Tokenizer", settings: OnnxSettings) -> _Loaded:
        try:
            import onnxruntime  # noqa: PLC0415 - as above
        except ImportError as error:
            raise _missing_packages() from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.log_severity_level = _ERRORS_ONLY
        options.enable_cpu_mem_arena = False  # it keeps the memory of the largest batch: 1.1 GB for 64 long texts
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        session = onnxruntime.InferenceSession(str(self._files.graph), options, providers=["CPUExecutionProvider"])
        output, pools = _select_output(session)
        if settings.further_layers and not pools:
            raise ModelUnavailableError(
                f"{self._files.graph} ends before the layers {', '.join(settings.further_layers)}; export it with them"
            )
        unknown = [put.name for put in session.get_inputs() if put.name not in _INPUTS or put.type not in _TYPES]
        if unknown:
            raise ModelUnavailableError(f"the graph requires {unknown}; only {list(_INPUTS)} of integers are supported")
        inputs = {put.name: _TYPES[put.type] for put in session.get_inputs()}
        # Padding is masked, but models of the RoBERTa family count positions by its token.
        named = (tokenizer.token_to_id(token) for token in _PADDINGS)
        pad_id = next((number for number in (settings.pad_id, *named) if number is not None), 0)
        if tokenizer.padding:
            pad_id = int(tokenizer.padding["pad_id"])
        tokenizer.no_padding()
        return _Loaded(session, tokenizer, pad_id, inputs, output, None if pools else settings.pooling)


def _compute_rows(loaded: _Loaded, texts: Sequence[str]) -> NDArray[np.float32]:
    encodings = [loaded.tokenizer.encode(text) for text in texts]
    width = max(1, *(len(encoding.ids) for encoding in encodings))
    fed = {
        "input_ids": np.full((len(texts), width), loaded.pad_id),
        "attention_mask": np.zeros((len(texts), width), np.int64),
        "token_type_ids": np.zeros((len(texts), width), np.int64),
    }
    fed["attention_mask"][:, 0] = 1  # a text without any token is treated as one padding token
    for row, encoding in enumerate(encodings):
        fed["input_ids"][row, : len(encoding.ids)] = encoding.ids
        fed["attention_mask"][row, : len(encoding.ids)] = 1
        fed["token_type_ids"][row, : len(encoding.ids)] = encoding.type_ids
    inputs = {name: fed[name].astype(kind, copy=False) for name, kind in loaded.inputs.items()}
    (states,) = loaded.session.run([loaded.output], inputs)
    rows = _pool_states(np.asarray(states, np.float32), fed["attention_mask"], loaded.pooling)
    unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def _pool_states(states: NDArray[np.float32], mask: NDArray[np.int64], pooling: Pooling | None) -> NDArray[np.float32]:
    """Pool states of shape (texts, tokens, dim). Without pooling their shape is (texts, dim) already."""
    match pooling:
        case None:
            return states
        case Pooling.CLS:
            return states[:, 0]
        case Pooling.MEAN:
            weights = (mask / mask.sum(axis=1, keepdims=True)).astype(np.float32)
            mean: NDArray[np.float32] = np.matmul(weights[:, None, :], states)[:, 0]
            return mean


def _select_output(session: "InferenceSession") -> tuple[str, bool]:
    """Return the name of the output to use, and True if it holds one vector per text."""
    outputs = {output.name: len(output.shape) for output in session.get_outputs()}
    whole = [name for name, rank in outputs.items() if rank == 2 and name in {"sentence_embedding", *list(outputs)[:1]}]
    if whole:
        return ("sentence_embedding" if "sentence_embedding" in whole else whole[0]), True
    by_token = [name for name, rank in outputs.items() if rank == 3]
    if not by_token:
        raise ModelUnavailableError(f"the graph outputs {sorted(outputs)}: neither vectors of texts nor of tokens")
    return ("last_hidden_state" if "last_hidden_state" in by_token else by_token[0]), False


def _missing_packages() -> ModelUnavailableError:
    return ModelUnavailableError("ONNX models need onnxruntime and tokenizers; install skillbus-embedder[onnx]")
