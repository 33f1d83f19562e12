# SPDX-License-Identifier: Apache-2.0
# Everything else is `xdplab`, `robot` and `pytest` in .venv/bin.
# `sudo make latency`: the caller's cache, not root's
ifneq ($(filter-out root,$(SUDO_USER)),)
export XDPLAB_CACHE ?= $(shell getent passwd $(SUDO_USER) | cut -d: -f6)/.cache/xdplab
endif
.PHONY: help latency test test-all ovs-check docs wheel deb install ssh-suites nic-test lab lab-down lab-test provision undo report setup clean cost ledger

help: # what there is to make
	@sed -n 's/^\([a-z -]*\):[a-z ]*# \(.*\)/make \1: \2/p' Makefile

latency: export MEASURES := 1
latency: setup # sets the machine up, measures every forwarder, writes results/latest/report.html
	.venv/bin/robot --outputdir results/robot --argumentfile build/latency.args suites/latency.robot
	@echo "report: results/latest/report.html"

test: setup # tests and checks of what a change can break: a quarter of an hour
	ci/check

test-all: export WITH_BROWSER := 1
test-all: setup # all tests and checks, as before a release, which takes hours
	ci/check --all
	$(MAKE) ovs-check nic-test
	$(MAKE) lab-test B=bookworm && $(MAKE) lab-test B=trixie

ovs-check: # Open vSwitch: each patch compiled by gcc and clang, then its own tests; an hour the first time
	ovs/build --check-each && ovs/build --check-each --compiler clang --no-usdt
	ovs/check && ovs/check --hw-offload --no-unit

docs: setup # build/docs/index.html: the documents as pages, with a reference made of the code
	.venv/bin/mkdocs build

wheel: setup # dist/: xdplab for use without a checkout, and the sources it is built from
	.venv/bin/python -c 'from setuptools import build_meta as b; b.build_sdist("dist")'
	.venv/bin/python -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation -w dist dist/xdplab-*.tar.gz

deb: # build/deb/: Debian packages of this checkout, and the source package; on Debian 13 or newer
	ci/deb

# What a package has: the files alone, for the system's Python; what they need are the dependencies in pyproject.toml.
PYTHON ?= /usr/bin/python3
PREFIX ?= /usr
WHEEL ?= dist/xdplab-*.whl
install: wheel # the files into $(DESTDIR)$(PREFIX), without their dependencies: for packagers
	DEB_PYTHON_INSTALL_LAYOUT=deb .venv/bin/python -m pip --disable-pip-version-check --python $(PYTHON) install --quiet --no-deps --no-index \
		--ignore-installed --no-warn-script-location --root "$(abspath $(DESTDIR)/)" --prefix $(PREFIX) $(WHEEL)

ssh-suites: setup # two suites against three hosts behind sshd, which are network namespaces of this machine
	.venv/bin/python tools/tests/lab/sshlab.py run .venv/bin/robot --outputdir results/robot \
		-v "TESTBED:{testbed}" $(ROBOT) suites/latency.robot suites/rfc2544.robot

nic-test: setup # igb and virtio_net, emulated, and the kernels of Debian 12 and 13: docs/nic-lane.md; KERNEL=6.1 for one of them
	.venv/bin/python ci/nic $(if $(KERNEL),--kernel $(KERNEL))

B ?= bookworm
lab: setup # three Debian guests with igb cards, cabled as docs/first-lab.md has it, until make lab-down: docs/lab.md; B=trixie
	.venv/bin/python ci/lab up --b $(B)

lab-down: # ends them
	.venv/bin/python ci/lab down

lab-test: setup # the commands of docs/first-lab.md and docs/provision.md, on such guests; B=trixie
	.venv/bin/python ci/lab test --b $(B)

COST ?= xdp linux-bridge ovs-kernel ovs-afxdp ovs-afxdp:build=patched --kernel 6.1 --kernel 7.2 --driver veth --driver igb
cost: setup # instructions per forwarded frame, in emulated guests, 20 minutes: docs/cost.md; COST="xdp --kernel 6.12"
	mkdir -p build
	.venv/bin/xdplab cost $(COST) --json build/cost.json --markdown build/cost.md

LEDGER ?= xdp linux-bridge ovs-kernel xsk testpmd:busy_budget=0 ovs-afxdp ovs-afxdp:build=patched ovs-afxdp:flow_offload=true vpp-afxdp \
	--kernel 6.1 --kernel 6.12 --kernel 7.2 --driver veth --driver virtio --driver igb --driver igb-zc --seeds 1
# a cell that fails is a line of the table, and its exit code 1
ledger: setup # cost and working functions of kernels, drivers and switches, as a page: docs/cost.md; goes on where it was ended
	mkdir -p build/ledger && rm -f build/ledger/cost.html
	.venv/bin/xdplab cost $(LEDGER) --features --ledger build/ledger || test -e build/ledger/cost.html
	@echo "page: build/ledger/cost.html"

provision undo report: setup # ci/ansible on the hosts of a testbed file: TESTBED=lab.yaml [ANSIBLE="--check --diff"]
	XDPLAB_TESTBED="$(TESTBED)" ANSIBLE_CONFIG=ci/ansible/ansible.cfg LC_ALL=C.UTF-8 \
		.venv/bin/ansible-playbook $(ANSIBLE) ci/ansible/$@.yml

setup: # installs and builds what is missing
	@ci/setup

clean: # removes what was built, and .venv
	rm -rf build dist .venv
	$(MAKE) -C bpf clean
