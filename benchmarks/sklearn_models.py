"""Compare scikit-learn models, exported by skl2onnx, with ONNX Runtime: results, host ops, times for 1 and 1 000 rows.

`maps` is the default export of a classifier, whose probabilities are a list of dicts; the others give tensors.

pip install atcpy[ml] && python benchmarks/sklearn_models.py [NAME…]

Both engines use one thread with default settings and alternate in one process. `ratio` is ONNX Runtime's minimum time
over all rounds, divided by atcpy's.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from skl2onnx import to_onnx
from sklearn.datasets import make_classification, make_regression
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC, SVR

import atcpy

ROWS: Final = (1, 1000)
ROUNDS: Final = 7
SECONDS: Final = 0.1  # of one measurement
BINARY, MANY, NUMBERS = (
    make_classification(1000, 20, random_state=0),
    make_classification(1000, 20, n_classes=5, n_informative=10, random_state=0),
    make_regression(1000, 20, random_state=0),
)
MODELS: Mapping[str, tuple[Any, Any]] = {
    "random forest, 2 classes": (RandomForestClassifier(random_state=0), BINARY),
    "random forest, 5 classes": (RandomForestClassifier(random_state=0), MANY),
    "random forest, regression": (RandomForestRegressor(random_state=0), NUMBERS),
    "boosting, 2 classes": (GradientBoostingClassifier(random_state=0), BINARY),
    "boosting, 5 classes": (GradientBoostingClassifier(random_state=0), MANY),
    "boosting, regression": (GradientBoostingRegressor(random_state=0), NUMBERS),
    "SVC": (SVC(random_state=0), BINARY),
    "SVC, 5 classes": (SVC(random_state=0), MANY),
    "SVR": (SVR(), NUMBERS),
    "neighbours": (KNeighborsClassifier(), MANY),
    "logistic regression": (LogisticRegression(max_iter=1000), BINARY),
    "scaler, logistic regression": (make_pipeline(StandardScaler(), LogisticRegression()), MANY),
    "imputer, scaler, forest": (make_pipeline(SimpleImputer(), MinMaxScaler(), RandomForestClassifier()), MANY),
    "scaler, PCA, SVC": (make_pipeline(StandardScaler(), PCA(8), SVC()), MANY),
}


def main(*names: str) -> None:
    """Print a line per model, number of rows and kind of shape."""
    warnings.filterwarnings("ignore")
    print(
        f"{'model':30} {'rows':>5} {'kind':>6} {'atcpy µs':>10} {'ORT µs':>10} {'ratio':>6} {'error':>9}  on the host"
    )
    for name, (model, (x, y)) in MODELS.items():
        if not names or name in names:
            x = x.astype(np.float32)
            model.fit(x, y)
            with_maps = to_onnx(model, x[:1]).SerializeToString()
            options = {"zipmap": False} if hasattr(model, "predict_proba") else None
            proto = to_onnx(model, x[:1], options=options).SerializeToString()
            for rows in ROWS:
                feed = np.resize(x, (rows, x.shape[1]))
                measure(name, "open", proto, feed)
                measure(name, "fixed", proto, feed, input_shape={"X": feed.shape})
                if options:
                    measure(name, "maps", with_maps, feed)


def measure(name: str, kind: str, proto: bytes, x: Any, **arguments: Any) -> None:
    """Convert a model with these arguments, and time it on the rows of x."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    ort = onnxruntime.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
    feeds = {ort.get_inputs()[0].name: x}
    with tempfile.TemporaryDirectory() as folder:
        source, package = Path(folder) / "m.onnx", Path(folder) / "m.om"
        source.write_bytes(proto)
        report = atcpy.convert(source, package, **arguments)
        ours = atcpy.InferenceSession(package, threads=1)
        error = largest_error(ours.run(None, feeds), ort.run(None, feeds))
        ours_us, ort_us = interleaved_minima_us(lambda: ours.run(None, feeds), lambda: ort.run(None, feeds))
        times = f"{ours_us:10.1f} {ort_us:10.1f} {ort_us / ours_us:6.2f}"
        host = " ".join(count.op for count in report.host_cpu_ops)
        print(f"{name:30} {len(x):5} {kind:>6} {times} {error:9.1e}  {host}", flush=True)


def largest_error(ours: list[Any], theirs: list[Any]) -> float:
    """Return the largest error relative to the output's largest element; each wrong label counts 1."""
    errors = [0.0]
    for found, expected in zip(ours, theirs, strict=True):
        if isinstance(expected, list):
            found, expected = (np.array([list(row.values()) for row in maps]) for maps in (found, expected))
        if expected.dtype.kind != "f":
            errors.append(float((found != expected).sum()))
        else:
            errors.append(float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-30)))
    return max(errors)


def interleaved_minima_us(*functions: Callable[[], object]) -> list[float]:
    """Return the shortest time of each function in µs, measured alternately."""
    best = [float("inf")] * len(functions)
    for _ in range(ROUNDS):
        for index, function in enumerate(functions):
            function()
            end = time.perf_counter() + SECONDS
            while time.perf_counter() < end:
                start = time.perf_counter()
                function()
                best[index] = min(best[index], time.perf_counter() - start)
    return [seconds * 1e6 for seconds in best]


if __name__ == "__main__":
    main(*sys.argv[1:])
