import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glocalfair.aggregation import average
from glocalfair.aggregation.average import weighted_average


def at_once(vectors: list[np.ndarray], coefficients: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """The plain form, all in float64."""
    result = sum(c * v.astype(float) for c, v in zip(coefficients, vectors, strict=True))
    left = 1 - coefficients.sum()
    return (result + (left * rest.astype(float) if left > 1e-12 else 0)).astype(rest.dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(clients=st.integers(1, 5), size=st.integers(1, 40), kept=st.sampled_from([0.0, 0.25]), seed=st.integers(0, 99))
def test_pieces_equal_the_whole_bit_for_bit(dtype: type, clients: int, size: int, kept: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = [rng.normal(size=size).astype(dtype) for _ in range(clients)]
    rest = rng.normal(size=size).astype(dtype)
    share = rng.random(clients)
    share *= (1 - kept) / share.sum()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(average, "_CHUNK", 7)
        patch.setattr(average, "_STRETCH", 16)
        found = weighted_average(vectors, share, rest)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, at_once(vectors, share, rest))
