# SPDX-License-Identifier: Apache-2.0
# The two commands of the README; everything else is `xdplab`, `robot` and `pytest` in .venv/bin.
.PHONY: latency test ssh-suites nic-test setup clean

latency: setup
	.venv/bin/robot --outputdir results/robot suites/latency.robot
	@echo "report: results/latest/report.html"

test: setup
	ci/check

# both suites against three hosts behind sshd, which are network namespaces of this machine
ssh-suites: setup
	.venv/bin/python tools/tests/lab/sshlab.py run .venv/bin/robot --outputdir results/robot \
		-v "TESTBED:{testbed}" $(ROBOT) suites/latency.robot suites/rfc2544.robot

# igb and virtio_net, emulated: docs/nic-lane.md
nic-test: setup
	.venv/bin/python ci/nic

setup:
	@ci/setup

clean:
	rm -rf build .venv
	$(MAKE) -C bpf clean
