# SPDX-License-Identifier: Apache-2.0
# The two commands of the README; everything else is `xdplab`, `robot` and `pytest` in .venv/bin.
.PHONY: latency test setup clean

latency: setup
	.venv/bin/robot --outputdir results/robot suites/latency.robot
	@echo "report: results/latest/report.html"

test: setup
	ci/check

setup:
	@ci/setup

clean:
	rm -rf build .venv
	$(MAKE) -C bpf clean
