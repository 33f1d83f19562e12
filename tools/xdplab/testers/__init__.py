# SPDX-License-Identifier: Apache-2.0
"""What sends and measures. Each is found through the entry point group `xdplab.testers`."""

from xdplab.testers.base import RxChoice, Tester, TesterContext
from xdplab.testers.calibrate import calibrate
from xdplab.testers.registry import make_tester, tester_names
