# SPDX-License-Identifier: Apache-2.0
"""Tests that send frames and change settings of the machine run one after another, also with `pytest -n`."""

import os

import pytest


@pytest.mark.root
@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="one process anyway")
def test_what_sends_frames_is_one_group_of_xdist(request: pytest.FixtureRequest) -> None:
    """pytest 9.2 dropped the groups of xdist without a word: two runs then shared the machine."""
    assert request.node.nodeid.endswith("@testbed")
