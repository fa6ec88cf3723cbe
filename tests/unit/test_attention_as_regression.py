"""What examples/attention_as_regression.py says of the three smoothers."""

import subprocess
import sys
from pathlib import Path

import torch

from examples import attention_as_regression as smoothers

PLACES = torch.linspace(-1, 6, 31, dtype=torch.float64)


def test_attention_is_nadaraya_watson():
    x, _ = smoothers.points()
    for width in (0.2, 0.35, 1.7):
        by_kernel = smoothers.nadaraya_watson(PLACES, x, width)
        torch.testing.assert_close(
            smoothers.attend(PLACES, x, width), by_kernel, rtol=0, atol=1e-12
        )
        torch.testing.assert_close(by_kernel.sum(1), torch.ones(31).double())


def test_a_wide_kernel_gives_the_mean_and_a_narrow_one_the_nearest_value():
    x, y = torch.tensor([0.0, 1.0, 3.0]).double(), torch.tensor([2.0, 4.0, 9.0]).double()
    q = torch.tensor([0.9, 2.5]).double()
    wide, narrow = (smoothers.attend(q, x, width) @ y for width in (1e4, 1e-2))
    torch.testing.assert_close(wide, torch.full((2,), 5.0).double(), rtol=0, atol=1e-6)
    torch.testing.assert_close(narrow, torch.tensor([4.0, 9.0]).double())


def test_without_noise_the_process_goes_through_the_points_and_looks_at_each_alone():
    x, y = torch.tensor([0.0, 0.7, 1.9, 3.0]).double(), torch.tensor([1.0, -2.0, 0.5, 4.0]).double()
    weights = smoothers.gaussian_process(x, x, noise=0.0)
    torch.testing.assert_close(weights, torch.eye(4).double(), rtol=0, atol=1e-9)
    torch.testing.assert_close(weights @ y, y, rtol=0, atol=1e-9)


def test_with_much_noise_the_process_is_the_kernel_sum_without_its_denominator():
    x, y = smoothers.points()
    noise = 1e4
    scaled = noise**2 * smoothers.gaussian_process(PLACES, x, noise=noise) @ y
    torch.testing.assert_close(scaled, smoothers.kernel(PLACES, x) @ y, rtol=1e-5, atol=1e-7)


def test_all_three_are_linear_in_the_values_and_the_process_alone_has_negative_weights():
    x, _ = smoothers.points()
    lowest = {name: float(f(PLACES, x).min()) for name, f in smoothers.SMOOTHERS.items()}
    assert lowest["attention"] >= 0 and lowest["Nadaraya–Watson"] >= 0
    assert lowest["Gaussian process"] < -0.05


def test_the_example_draws_its_picture(tmp_path: Path):
    picture = tmp_path / "fits.png"
    script = Path(smoothers.__file__)
    done = subprocess.run(
        [sys.executable, script, picture], capture_output=True, text=True, cwd=script.parents[1]
    )
    assert done.returncode == 0, done.stderr
    assert "differ by at most" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
