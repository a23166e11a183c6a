"""GLocalFair as a scikit-learn classifier (extra ``sklearn``)."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from glocalfair.data.encoder import Encoder
from glocalfair.data.federation import build
from glocalfair.data.frame.values import MISSING
from glocalfair.data.partition import PartitionSpec
from glocalfair.data.split import SplitSpec
from glocalfair.errors import GlocalfairError
from glocalfair.types import Attribute, Dataset

try:
    from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped]
    from sklearn.utils.multiclass import (  # type: ignore[import-untyped]
        check_classification_targets,
        type_of_target,
    )
    from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped]
except ImportError as error:  # pragma: no cover
    raise GlocalfairError(f"This needs an extra: pip install 'glocalfair[sklearn]' ({error}).") from error


class GLocalFairClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Trains a binary classifier in a simulated federation, fair over everyone and inside each client.

    Parameters
    ----------
    method
        A name of ``glocalfair list methods``.
    method_settings
        Settings of the method, such as ``{"gamma": 2.0}``.
    model
        None for an MLP, a name, or a function from the number of inputs to an `nn.Module` with one logit.
    hidden
        Sizes of the hidden layers of the MLP.
    rounds, epochs, lr, batch_size
        The training.
    n_clients
        Number of clients that the rows are dealt out to, if `fit` is told of none.
    random_state
        Equal seeds give equal models.

    Attributes
    ----------
    classes_
        The two labels; the second, in sorted order, is the positive one.
    result_
        The `glocalfair.Result` of the training. All rows are trained on, so it holds no test figures.

    Examples
    --------
    >>> x = np.stack([np.arange(60.0), np.arange(60.0) % 7], axis=1)
    >>> y = np.where(x[:, 0] > 30, "yes", "no")
    >>> classifier = GLocalFairClassifier(rounds=10)
    >>> classifier.fit(x, y, sensitive_features=["F", "M"] * 30, clients=["a", "b", "c"] * 20).score(x, y) > 0.8
    True
    """

    def __init__(
        self,
        method: str = "glocalfair",
        *,
        method_settings: dict[str, Any] | None = None,
        model: Any = None,
        hidden: tuple[int, ...] = (32, 16),
        rounds: int = 30,
        epochs: int = 5,
        lr: float = 0.05,
        batch_size: int = 32,
        n_clients: int = 1,
        random_state: int | None = 0,
    ) -> None:
        self.method = method
        self.method_settings = method_settings
        self.model = model
        self.hidden = hidden
        self.rounds = rounds
        self.epochs = epochs
        self.lr = lr
        self.batch_size = batch_size
        self.n_clients = n_clients
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Declare that there are two classes."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, sensitive_features: Any = None, clients: Any = None) -> GLocalFairClassifier:
        """Train.

        Parameters
        ----------
        X
            Numbers ``[rows, features]``; encode categories before, for instance in a `Pipeline`.
        y
            Two labels.
        sensitive_features
            Groups of each row: one column, or several as a matrix or frame. None: nothing to protect.
        clients
            The organisation of each row. None: rows are dealt out to `n_clients`.
        """
        from glocalfair.api import train
        from glocalfair.types import Federation

        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, label = np.unique(y, return_inverse=True)
        if len(self.classes_) != 2:
            kind = type_of_target(y, input_name="y", raise_unknown=True)
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}."
                if len(self.classes_) > 2
                else f"Classifier can't train when only one class is present. Got {self.classes_[0]!r} alone."
            )
        dataset = _dataset(X, label, sensitive_features, clients)
        seed = _seed(self.random_state)
        partition = PartitionSpec("iid", clients=min(self.n_clients, len(X)), min_rows=0)
        if clients is not None:
            partition = PartitionSpec("by_column", min_rows=0)
        federation, encoder = build(dataset, partition, SplitSpec(test=0.0, validation=0.0, local_test=0.0), seed)
        assert isinstance(encoder, Encoder) and isinstance(federation, Federation)
        self._encoder = encoder
        self.result_ = train(
            federation,
            {"name": self.method, **(self.method_settings or {})},
            self.model,
            rounds=self.rounds,
            seed=seed,
            progress=False,
            epochs=self.epochs,
            lr=self.lr,
            batch_size=self.batch_size,
            hidden=tuple(self.hidden),
            evaluate_every=self.rounds,
        )
        # In float32 a row's logit would depend a little on which rows it is predicted with.
        self._module = copy.deepcopy(self.result_.model).double()
        return self

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the logit of the second class."""
        import torch

        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        empty = np.zeros(len(X), dtype=np.int64)
        x = self._encoder.transform(_dataset(X, empty, None, None))
        with torch.no_grad():
            logits: npt.NDArray[np.float64] = self._module(torch.from_numpy(x).double()).reshape(-1).numpy()
        return logits

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the probabilities of the two classes ``[rows, 2]``."""
        logits = self.decision_function(X)
        positive = 0.5 * (1 + np.tanh(0.5 * logits))
        return np.stack([1 - positive, positive], axis=1)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the predicted labels."""
        logits = self.decision_function(X)
        predicted: npt.NDArray[Any] = self.classes_[(logits > 0).astype(np.int64)]
        return predicted


def _seed(random_state: Any) -> int:
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return int(random_state)


def _dataset(X: Any, label: Any, sensitive: Any, clients: Any) -> Dataset:
    attributes, codes = _groups(sensitive, len(X))
    owner, names = None, ()
    if clients is not None:
        strings = _strings(clients, "clients", len(X))
        found, owner = np.unique(strings, return_inverse=True)
        names = tuple(found.tolist())
    return Dataset(
        name="memory",
        # float64: a column near 1e9 with a spread of 1 must not lose it before it is standardised.
        numeric=np.asarray(X, dtype=np.float64),
        numeric_names=tuple(f"x{i}" for i in range(X.shape[1])),
        categorical=np.zeros((len(X), 0), dtype=np.int32),
        categories=(),
        label=label.astype(np.int64),
        groups=codes,
        attributes=attributes,
        owner=owner,
        owner_names=names,
    )


def _groups(sensitive: Any, rows: int) -> tuple[tuple[Attribute, ...], npt.NDArray[np.int64]]:
    if sensitive is None:
        return (), np.zeros((rows, 0), dtype=np.int64)
    names = [str(name) for name in getattr(sensitive, "columns", [])]
    single = getattr(sensitive, "name", None)
    if isinstance(sensitive, dict):
        names, sensitive = list(map(str, sensitive)), np.stack([np.asarray(v, object) for v in sensitive.values()], 1)
    matrix = np.asarray(sensitive, dtype=object)
    matrix = matrix.reshape(len(matrix), -1)
    if len(matrix) != rows:
        raise ValueError(f"'sensitive_features' has {len(matrix)} rows, X has {rows}.")
    names = names or ([str(single)] if single is not None else [])
    if len(names) != matrix.shape[1]:
        names = [f"sensitive_{i}" for i in range(matrix.shape[1])] if matrix.shape[1] > 1 else ["sensitive"]
    attributes, codes = [], []
    for name, column in zip(names, matrix.T, strict=True):
        values, code = np.unique(_strings(column, name, rows), return_inverse=True)
        attributes.append(Attribute(name, tuple(values.tolist())))
        codes.append(code)
    return tuple(attributes), np.stack(codes, axis=1)


def _strings(column: Any, name: str, rows: int) -> npt.NDArray[np.str_]:
    items = np.asarray(column, dtype=object).reshape(-1)
    if len(items) != rows:
        raise ValueError(f"'{name}' has {len(items)} rows, X has {rows}.")
    return np.array([MISSING if item is None or item != item else str(item) for item in items], dtype=str)
