# SPDX-License-Identifier: Apache-2.0
"""Reproduction of "Understanding Delays in AF_XDP-based Applications" from a run of a sweep: `python -m xdplab_delays`.

Groups of configurations by k-means, rules that say which settings make them, a forest's importance of each setting, the
study's tables next to ours, and its second part, the best of each group under load. It imports `xdplab.api` only, and
needs scikit-learn (`pip install 'xdplab[sweeps]'`).
"""
