"""A bundle as an ONNX model that reads the raw columns (extra ``onnx``).

Each input column is an input of its own, ``[rows, 1]``: float for a number (NaN is missing), string for a category
(missing is ``(missing)``). The output ``probability`` is that of the positive label.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from glocalfair.bundle import Bundle
from glocalfair.data.frame.values import OTHER
from glocalfair.errors import GlocalfairError
from glocalfair.runs import write_atomically

OPSET, ML_OPSET, IR = 18, 3, 9
OUTPUT = "probability"
_INNER = "/glocalfair/"
"""How the names inside the graph begin, so that they are no column's."""


def export(bundle: Bundle, path: str | Path) -> None:
    """Write the model with its preprocessing as ONNX; built-in models only."""
    if str(bundle.model["name"]) not in ("mlp", "linear"):
        raise GlocalfairError(
            f"Only the models 'mlp' and 'linear' can be exported, not '{bundle.model['name']}'. Use torch.onnx on it."
        )
    for column in bundle.schema.inputs:
        if not column or column == OUTPUT or column.startswith(_INNER):
            raise GlocalfairError(f"The column '{column}' cannot be an input of an ONNX model. Give it another name.")
    bundle.module()
    write_atomically(Path(path), _Graph(bundle).model().SerializeToString())


class _Graph:
    """Collects the nodes and constants of the graph."""

    def __init__(self, bundle: Bundle) -> None:
        try:
            import onnx
        except ImportError as error:
            raise GlocalfairError(f"This needs an extra: pip install 'glocalfair[onnx]' ({error}).") from error
        self.onnx, self.bundle = onnx, bundle
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def model(self) -> Any:
        """Return the finished model."""
        helper, kinds = self.onnx.helper, self.onnx.TensorProto
        encoder, schema = self.bundle.encoder, self.bundle.schema
        columns = [*([self._numbers()] if encoder.numeric else [])]
        columns += [self._one_hot(i, name, values) for i, (name, values) in enumerate(encoder.categories)]
        last = self._layers(self._node("Concat", *columns, axis=1))
        self.nodes.append(helper.make_node("Sigmoid", [last], [OUTPUT]))
        inputs = [helper.make_tensor_value_info(name, kinds.FLOAT, ["rows", 1]) for name in encoder.numeric]
        inputs += [helper.make_tensor_value_info(name, kinds.STRING, ["rows", 1]) for name, _ in encoder.categories]
        output = helper.make_tensor_value_info(OUTPUT, kinds.FLOAT, ["rows", 1])
        graph = helper.make_graph(self.nodes, "glocalfair", inputs, [output], self.constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR, producer_name="glocalfair")
        about = {"label": schema.label, "positive": schema.positive, "negative": schema.negative}
        helper.set_model_props(model, {"glocalfair": json.dumps(about)})
        self.onnx.checker.check_model(model)
        return model

    def _constant(self, value: Any) -> str:
        name = f"{_INNER}constant{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def _node(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        name = f"{_INNER}node{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], domain=domain, **attributes))
        return name

    def _numbers(self) -> str:
        """Standardise in double precision, as the encoder does; missing is 0, with its indicators behind."""
        encoder, kinds = self.bundle.encoder, self.onnx.TensorProto
        x = self._node("Concat", *encoder.numeric, axis=1)
        missing = self._node("IsNaN", x)
        std = np.array(encoder.std)
        wide = self._node("Cast", x, to=kinds.DOUBLE)
        centred = self._node("Sub", wide, self._constant(np.array(encoder.mean)))
        # A column without spread in training is 0, whatever it is now.
        scale = self._constant(np.divide(1.0, std, out=np.zeros_like(std), where=std > 0))
        scaled = self._node("Where", missing, self._constant(0.0), self._node("Mul", centred, scale))
        parts = [self._node("Cast", scaled, to=kinds.FLOAT)]
        marked = np.flatnonzero(encoder.indicator)
        if len(marked):
            indicator = self._node("Cast", missing, to=kinds.FLOAT)
            parts.append(self._node("Gather", indicator, self._constant(marked.astype(np.int64)), axis=1))
        return self._node("Concat", *parts, axis=1)

    def _one_hot(self, number: int, name: str, values: tuple[str, ...]) -> str:
        hot = self._node("OneHotEncoder", name, domain="ai.onnx.ml", cats_strings=list(values), zeros=1)
        flat = self._node("Reshape", hot, self._constant(np.array([-1, len(values)])))
        if OTHER not in values:
            return flat
        found = self._node("ReduceSum", flat, self._constant(np.array([1])), keepdims=1)
        strange = self._node("Sub", self._constant(np.float32(1)), found)
        place = np.array([[value == OTHER for value in values]], dtype=np.float32)
        return self._node("Add", flat, self._node("Mul", strange, self._constant(place)))

    def _layers(self, x: str) -> str:
        tensors, depth = self.bundle.tensors, len(self.bundle.tensors) // 2
        for i in range(depth):
            weight, bias = (tensors[f"layers.{i}.{part}"].astype(np.float32) for part in ("weight", "bias"))
            x = self._node("Gemm", x, self._constant(weight), self._constant(bias), transB=1)
            x = self._node("Relu", x) if i < depth - 1 else x
        return x
