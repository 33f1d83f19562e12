# SPDX-License-Identifier: Apache-2.0
# The two commands of the README; everything else is `xdplab`, `robot` and `pytest` in .venv/bin.
.PHONY: latency test ssh-suites nic-test pool provision undo report setup clean

latency: setup
	.venv/bin/robot --outputdir results/robot suites/latency.robot
	@echo "report: results/latest/report.html"

test: setup
	ci/check

# both suites against three hosts behind sshd, which are network namespaces of this machine
ssh-suites: setup
	.venv/bin/python tools/tests/lab/sshlab.py run .venv/bin/robot --outputdir results/robot \
		-v "TESTBED:{testbed}" $(ROBOT) suites/latency.robot suites/rfc2544.robot

# igb and virtio_net, emulated, and Debian 12's kernel: docs/nic-lane.md; make nic-test KERNEL=6.1 for one of the two
nic-test: setup
	.venv/bin/python ci/nic $(if $(KERNEL),--kernel $(KERNEL))

# studies shared out over a pool of testbeds, and one report: make pool POOL=FILE [SUITES="..."] [ROBOT="-v ..."]
SUITES ?= suites/latency.robot suites/rfc2544.robot
pool: setup
	@test -f "$(POOL)" || { echo "make pool: give POOL=FILE, such as suites/testbeds/pool-example.dat" >&2; exit 2; }
	results=$(CURDIR)/results/pool-$$(date -u +%Y%m%d-%H%M%S); status=0; \
	PATH=$(CURDIR)/.venv/bin:$$PATH XDPLAB_RESULTS=$$results pabot --pabotlib --pabotlibport 0 \
		--resourcefile "$(POOL)" --processes $$(grep -c '^\[' "$(POOL)") --outputdir $$results/robot \
		-v TESTBED:pool $(ROBOT) $(SUITES) || status=$$?; \
	.venv/bin/xdplab merge --results $$results && exit $$status

# ci/ansible on the hosts of a testbed file: make provision TESTBED=lab.yaml [ANSIBLE="--check --diff"]
provision undo report: setup
	XDPLAB_TESTBED="$(TESTBED)" ANSIBLE_CONFIG=ci/ansible/ansible.cfg LC_ALL=C.UTF-8 \
		.venv/bin/ansible-playbook $(ANSIBLE) ci/ansible/$@.yml

setup:
	@ci/setup

clean:
	rm -rf build .venv
	$(MAKE) -C bpf clean
