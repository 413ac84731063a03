# SPDX-License-Identifier: Apache-2.0
import math

import pytest
from char_gpt.checks import Comparison, Run


def compare(expected, actual):
    cpu = "cpu"
    return Comparison(Run(cpu, [expected], [0.1]), Run(cpu, [actual], [0.2]))


@pytest.mark.parametrize(
    ("expected", "actual"), [(2.0, 2.0), (2.0, 2.0001), (0.0, 0.0), (1e-5, 1.05e-5)]
)
def test_agree(expected, actual):
    assert compare(expected, actual).agrees


@pytest.mark.parametrize(
    ("expected", "actual"),
    [(2.0, 2.001), (math.nan, math.nan), (2.0, math.nan), (math.inf, math.inf), (0.0, 0.001)],
)
def test_disagree(expected, actual):
    assert not compare(expected, actual).agrees


def test_one_step_that_differs_is_enough():
    cpu = "cpu"
    comparison = Comparison(
        Run(cpu, [3.0, 2.0, 1.0], [0.1] * 3), Run(cpu, [3.0, 2.1, 1.0], [0.1] * 3)
    )
    assert [agrees for *_, agrees in comparison.rows] == [True, False, True]
    assert not comparison.agrees
    assert comparison.largest_difference == pytest.approx(0.1 / 2.1)


def test_nan_is_the_largest_difference():
    assert math.isnan(compare(2.0, math.nan).largest_difference)


def test_step_time_ratio():
    assert compare(2.0, 2.0).step_time_ratio == pytest.approx(2.0)
