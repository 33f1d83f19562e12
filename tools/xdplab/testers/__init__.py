# SPDX-License-Identifier: Apache-2.0
"""What sends and measures. Each is found through the entry point group `xdplab.testers`."""

from xdplab.testers.base import (
    RxChoice as RxChoice,
    Tester as Tester,
    TesterContext as TesterContext,
    make_tester as make_tester,
    run_trial as run_trial,
)
from xdplab.testers.calibrate import calibrate as calibrate
