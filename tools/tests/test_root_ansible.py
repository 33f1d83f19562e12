# SPDX-License-Identifier: Apache-2.0
"""ci/ansible on three hosts behind sshd: in check mode, for real, twice, and undone until nothing is left of it.

Each host has its own /etc, /usr, /var and pools of hugepages (lab.sshlab). Packages come from a small archive on the
host, systemd and GRUB are stand-ins that remember what they were asked; everything else is real: Open vSwitch is what
ovs/build has in this machine's cache, or puts there in some minutes.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lab.command import BIN
from lab.sshlab import SshLab

from xdplab.tools import project_root

pytestmark = [pytest.mark.root, pytest.mark.slow]

CACHE = "/opt/lab-home/.cache/xdplab"
BUILDS = {"xdplab_builds": "patched"}
POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
ANSIBLE = project_root() / "ci" / "ansible"
#: What a host's files are: path, mode, owner, and hash or target; of all folders that provisioning writes to.
_LOOK = r"""
places="/boot /etc /opt /var/lib/xdplab-provision /usr/local/bin /usr/local/sbin /usr/sbin/policy-rc.d"
find $places -printf '%p %M %U %l\n' 2>/dev/null | sort
find $places -type f -exec md5sum {} + 2>/dev/null | sort
dpkg-query --show --showformat '${db:Status-Abbrev} ${Package} ${Version}\n'
grep -r "" /sys/kernel/mm/hugepages /sys/devices/system/node/*/hugepages /proc/sys/vm/nr_hugepages
apt-mark showmanual
systemctl show --property ActiveState,UnitFileState irqbalance.service
"""
#: As much of systemctl as Ansible's module asks for; a service is two files.
_SYSTEMCTL = """#!/bin/sh
state=/etc/lab-services
action=$1
for name; do :; done
[ "$name" != -l ] || name=$2
name=${name%.service}
echo "$*" >> /run/systemctl.log
case $action in
show)
  if [ -e $state/$name.unit ]; then
    printf 'Id=%s.service\\nLoadState=loaded\\n' $name
    [ -e $state/$name.active ] && echo ActiveState=active || echo ActiveState=inactive
    [ -e $state/$name.enabled ] && echo UnitFileState=enabled || echo UnitFileState=disabled
  else
    printf 'Id=%s.service\\nLoadState=not-found\\nActiveState=inactive\\nUnitFileState=\\n' $name
  fi ;;
is-active) [ -e $state/$name.active ] && echo active || { echo inactive; exit 3; } ;;
is-enabled) [ -e $state/$name.enabled ] && echo enabled || { echo disabled; exit 1; } ;;
start) touch $state/$name.active ;;
stop) rm -f $state/$name.active ;;
enable) touch $state/$name.enabled ;;
disable) rm -f $state/$name.enabled ;;
esac
"""
#: Of an older host.
_GETCONF = """#!/bin/sh
echo glibc 2.31
"""
#: What a role of the lab's hosts has; the first is called xdplab-lab-abi7 on this release.
_TABLE = """\
hosts xdplab-lab-abi* - -
hosts python3 - -
hosts xdplab-lab-extra xdplab-lab-extra -
ovs-build gcc-never gcc-never gcc-never
"""
_UPDATE_GRUB = """#!/bin/sh
GRUB_CMDLINE_LINUX_DEFAULT=quiet
for file in /etc/default/grub.d/*.cfg; do [ ! -e "$file" ] || . "$file"; done
echo "linux /vmlinuz $GRUB_CMDLINE_LINUX_DEFAULT" > /boot/grub/grub.cfg
"""
#: Of a package during whose installation apt-get is killed, the first time: dpkg's parent.
_CUT = """#!/bin/sh
[ -e /run/lab-cut ] && exit 0
touch /run/lab-cut
kill -9 $(ps -o ppid= -p $PPID)
"""


def deb(folder: Path, name: str, needs: str = "", version: str = "1.0", postinst: str = "") -> str:
    """A Debian package with one file and one of configuration, and its entry in the archive's index."""
    tree = folder / f"{name}-{version}"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "opt" / name).mkdir(parents=True)
    (tree / "opt" / name / "file").write_text(name, encoding="ascii")
    (tree / "etc").mkdir()
    (tree / "etc" / f"{name}.conf").write_text(f"of {version}\n", encoding="ascii")
    (tree / "DEBIAN" / "conffiles").write_text(f"/etc/{name}.conf\n", encoding="ascii")
    if postinst:
        (tree / "DEBIAN" / "postinst").write_text(postinst, encoding="ascii")
        (tree / "DEBIAN" / "postinst").chmod(0o755)
    control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: lab <lab@invalid>\n"
    control += "Description: lab\n"
    control += f"Depends: {needs}\n" if needs else ""
    (tree / "DEBIAN" / "control").write_text(control, encoding="ascii")
    made = folder / f"{tree.name}.deb"
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", str(tree), str(made)], check=True, capture_output=True)
    data = made.read_bytes()
    return f"{control}Filename: ./{made.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n\n"


def ovs_build(*options: str) -> Path:
    """The folder with what ovs/build makes, on this machine."""
    argv = [project_root() / "ovs" / "build", *options]
    return Path(subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout.strip())


class Site:
    """A lab whose hosts look like machines to Ansible."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lab = SshLab(folder / "lab")
        self.report = folder / "results" / "report.json"
        self.archive = folder / "archive"
        self.archive.mkdir()
        self.table = folder / "packages.txt"
        self.table.write_text(_TABLE, encoding="ascii")
        index = [deb(self.archive, name) for name in ("xdplab-lab-needed", "xdplab-lab-asked", "own")]
        index += [deb(self.archive, "xdplab-lab-abi7t64")]
        index += [deb(self.archive, name, "xdplab-lab-needed") for name in ("xdplab-lab-extra", "theirs")]
        index += [deb(self.archive, "xdplab-lab-cut", "xdplab-lab-needed", postinst=_CUT)]
        deb(self.archive, "xdplab-lab-extra", version="0.9")
        (self.archive / "Packages").write_text("".join(index), encoding="ascii")

    def up(self) -> None:
        self.lab.up()
        for host in "ABC":
            self._furnish(host)
        cpus = {"cpus": [1]}
        self.lab.write_testbed(a=cpus, b=cpus, c={"user": "lab", "sudo": True, **cpus})

    def _furnish(self, host: str) -> None:
        lab = self.lab
        lab.on(host, "sh", "-ec", "rm -rf /etc/apt/sources.list* /var/lib/apt/lists/* /var/lib/xdplab-provision")
        folders = ["/run/systemd/system", "/etc/lab-services", "/opt/lab-home", "/etc/default/grub.d", "/boot/grub"]
        lab.on(host, "mkdir", "-p", "/etc/tmpfiles.d", *folders)
        lab.on(host, "rm", "-f", "/usr/sbin/policy-rc.d")
        lab.put(host, "/etc/apt/sources.list", f"deb [trusted=yes] file:{self.archive} ./\n")
        lab.put(host, "/etc/apt/apt.conf.d/99lab", 'APT::Sandbox::User "root";\n')  # user _apt cannot enter the archive
        lab.put(host, "/usr/bin/systemctl", _SYSTEMCTL, 0o755)
        lab.put(host, "/usr/sbin/update-grub", _UPDATE_GRUB, 0o755)
        lab.on(host, "sh", "-ec", "update-grub; cd /etc/lab-services; touch irqbalance.unit irqbalance.active "
               "irqbalance.enabled tuned.unit")  # fmt: skip
        lab.on(host, "useradd", "--create-home", "--password", "*", "lab")
        lab.put(host, "/etc/sudoers.d/lab", "lab ALL=(root) NOPASSWD: ALL\n", 0o440)

    def look(self) -> dict[str, list[str]]:
        return {host: self.lab.on(host, "sh", "-c", _LOOK).splitlines() for host in "ABC"}

    def changes(self, before: dict[str, list[str]]) -> list[str]:
        """What differs from then, as lines."""
        now = self.look()
        return [f"{host}: {line}" for host in "ABC" for line in sorted(set(now[host]) ^ set(before[host]))]

    def play(self, name: str, *args: str, code: int = 0, **variables: Any) -> dict[str, dict[str, int]]:
        """Run a playbook; what its last lines count for each host."""
        given = {
            "xdplab_package_groups": ["hosts"],
            "xdplab_packages_table": str(self.table),
            **BUILDS,
            "xdplab_cache": CACHE,
            "xdplab_report": str(self.report),
            **variables,
        }
        env = {
            **os.environ,
            "XDPLAB_TESTBED": str(self.lab.testbed),
            "ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "ansible"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.folder / "cp"),
            "LC_ALL": "C.UTF-8",
        }
        argv = [str(BIN / "ansible-playbook"), "-e", json.dumps(given), *args, str(ANSIBLE / f"{name}.yml")]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=240)
        self.said = done.stdout + done.stderr
        assert done.returncode == code, self.said[-6000:]
        return {
            host: {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", counts)}
            for host, counts in re.findall(r"^(\w+) +: (ok=.*)$", done.stdout.partition("PLAY RECAP")[2], re.MULTILINE)
        }

    def part(self, *args: str, code: int = 0, **variables: Any) -> None:
        """Provision host a: no package, build or service but what `variables` name."""
        little = {"xdplab_package_groups": [], "xdplab_builds": [], "xdplab_conflicting_services": []}
        self.play("provision", "--limit", "a", *args, code=code, **{**little, **variables})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"))
    try:
        made.up()
        yield made
    finally:
        made.lab.down()


def changed(counts: dict[str, dict[str, int]]) -> dict[str, int]:
    assert all(count["failed"] == count["unreachable"] == 0 for count in counts.values())
    return {host: count["changed"] for host, count in counts.items()}


@pytest.mark.timeout(600)
def test_check_mode_for_real_twice_and_undone(site: Site) -> None:
    asked = {"xdplab_boot": True, "xdplab_hugepages_2m": 64}
    built = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in ovs_build().iterdir()}
    before = site.look()
    assert changed(site.play("provision", "--check", "--diff", "--limit", "c", **asked))["c"] > 0
    assert "xdplab-lab-extra" in site.said
    assert "gcc-never" not in site.said
    assert site.changes(before) == []

    assert set(changed(site.play("provision", "--limit", "b,c", **asked))) == {"b", "c"}
    for host in "BC":
        assert site.lab.on(host, "cat", *(f"/opt/xdplab-lab-{name}/file" for name in ("extra", "needed", "abi7t64")))
        assert site.lab.on(host, "cat", POOL) == "64\n"
        assert site.lab.on(host, "cat", "/proc/sys/vm/nr_hugepages") == "0\n"  # may be of 1 GiB each
        there = site.lab.on(host, "sh", "-c", f"cd {CACHE}/ovs/patched/ && sha256sum *")
        assert dict(line.split()[::-1] for line in there.splitlines()) == built
        shown = site.lab.on(host, "systemctl", "show", "irqbalance.service")
        assert "ActiveState=inactive\nUnitFileState=disabled" in shown
        assert "nohz_full=1 " in site.lab.on(host, "cat", "/boot/grub/grub.cfg")
        assert site.lab.on(host, "stat", "--format=%a", "/var/lib/xdplab-provision") == "700\n"
    assert "REBOOT b when it suits you" in site.said
    provisioned = site.look()

    assert changed(site.play("provision", "--limit", "c", **asked)) == {"c": 0}
    assert site.changes(provisioned) == []
    assert changed(site.play("undo", "--check", "--limit", "c"))["c"] > 0
    assert site.changes(provisioned) == []

    changed(site.play("undo", "--limit", "b,c"))
    assert site.changes(before) == []
    assert changed(site.play("undo", "--limit", "b")) == {"b": 0}


@pytest.mark.timeout(200)
def test_pages_are_reserved_by_path_on_a_node_and_at_boot(site: Site) -> None:
    before = site.look()
    for pages, nodes, why in (
        (1 << 24, [], r"2 MiB pages for 33554432 MiB more, and the host has \d+ MiB to give"),
        (8, [0, 77], r"no /sys/devices/system/node/node77/hugepages/hugepages-2048kB/nr_hugepages"),
    ):
        site.part(code=2, xdplab_hugepages_2m=pages, xdplab_hugepages_nodes=nodes)
        assert re.search(why, site.said), site.said
        assert site.changes(before) == []

    site.part(xdplab_hugepages_2m=8, xdplab_hugepages_nodes=[0])
    node = POOL.replace("kernel/mm", "devices/system/node/node0")
    assert site.lab.on("A", "cat", node, "/proc/sys/vm/nr_hugepages") == "8\n0\n"
    assert f"w! {node} - - - - 8\n" in site.lab.on("A", "cat", "/etc/tmpfiles.d/60-xdplab.conf")
    if shutil.which("systemd-tmpfiles"):  # not in a Debian that never boots
        site.lab.put("A", node, "0\n")
        site.lab.on("A", "systemd-tmpfiles", "--create", "--boot", "/etc/tmpfiles.d/60-xdplab.conf")
        assert site.lab.on("A", "cat", node, "/proc/sys/vm/nr_hugepages").split() == ["8", "0"]
    site.play("undo", "--limit", "a")
    assert site.changes(before) == []


@pytest.mark.timeout(200)
def test_undo_leaves_pages_of_which_somebody_has_changed_the_number_since(site: Site) -> None:
    before = site.look()
    site.part(xdplab_hugepages_2m=8)
    site.lab.put("A", POOL, "12\n")
    site.play("undo", "--limit", "a")
    assert re.search(r"pages, neither what was found .*: left alone", site.said), site.said
    assert site.lab.on("A", "cat", POOL) == "12\n"
    assert changed(site.play("undo", "--limit", "a")) == {"a": 0}
    site.lab.put("A", POOL, "0\n")
    assert site.changes(before) == []


@pytest.mark.timeout(200)
def test_undo_leaves_what_was_there_and_what_others_asked_for_since(site: Site) -> None:
    before = site.look()
    on_a = partial(site.lab.on, "A")
    on_a("apt-get", "-q", "update")
    on_a("dpkg", "--install", f"{site.archive}/xdplab-lab-extra-0.9.deb")
    site.lab.put("A", "/etc/xdplab-lab-extra.conf", "theirs\n")
    on_a("dpkg", "--remove", "xdplab-lab-extra")

    site.part(xdplab_more_packages=["xdplab-lab-extra", "xdplab-lab-asked"])
    assert on_a("cat", "/opt/xdplab-lab-extra/file", "/etc/xdplab-lab-extra.conf") == "xdplab-lab-extratheirs\n"
    assert "Remv xdplab-lab" not in on_a("apt-get", "-q", "autoremove", "--simulate")
    on_a("apt-get", "-q", "install", "-y", "theirs", "xdplab-lab-asked")
    site.play("undo", "--limit", "a")

    assert "needs them: xdplab-lab-asked, xdplab-lab-needed" in site.said, site.said
    assert on_a("cat", "/etc/xdplab-lab-extra.conf") == "theirs\n"
    shown = on_a("dpkg-query", "--show", "--showformat", "${db:Status-Abbrev}${Package}\n", "xdplab-lab-*", "theirs")
    assert sorted(shown.splitlines()) == [
        "ii theirs",
        "ii xdplab-lab-asked",
        "ii xdplab-lab-needed",
        "rc xdplab-lab-extra",
    ]
    on_a("apt-get", "-q", "purge", "-y", "theirs", "xdplab-lab-*")
    assert site.changes(before) == []


@pytest.mark.timeout(200)
def test_a_build_that_cannot_run_there_is_refused_before_it_is_sent(site: Site) -> None:
    on_a = partial(site.lab.on, "A")
    before = site.look()
    on_a("mv", "/usr/bin/getconf", "/usr/bin/getconf.own")
    site.lab.put("A", "/usr/bin/getconf", _GETCONF, 0o755)
    site.part("--tags", "builds", code=2, **BUILDS)
    why = r"a has \w+, glibc 2\.31; Open vSwitch patched of this machine needs \w+, glibc 2\.\d\d or later"
    assert re.search(why, site.said), site.said
    on_a("mv", "/usr/bin/getconf.own", "/usr/bin/getconf")
    assert site.changes(before) == []

    on_a("sh", "-ec", "mkdir /usr/away; mv /usr/lib/*/libxdp.so.1* /usr/away; ldconfig")
    before = site.look()
    site.part("--tags", "builds", code=2, **BUILDS)
    assert "a lacks libxdp.so.1, which Open vSwitch patched" in site.said
    assert site.changes(before) == []
    on_a("sh", "-ec", "mv /usr/away/* /usr/lib/*-linux-gnu/; rmdir /usr/away; ldconfig")


@pytest.mark.timeout(900)
def test_a_host_with_another_dpdk_gets_a_build_without_and_its_own_back(site: Site) -> None:
    on_a = partial(site.lab.on, "A")
    link = f"{CACHE}/ovs/patched"
    ovs_build("--no-dpdk")  # some minutes where the cache does not have it
    on_a("sh", "-ec", f"mkdir -p {CACHE}/ovs/own; ln -s own {link}; rm /usr/lib/*/librte_*; ldconfig")
    before = site.look()
    site.part("--tags", "builds", **BUILDS)
    assert "DPDK" not in on_a(f"{link}/ovs-vswitchd", "--version")
    assert changed(site.play("undo", "--limit", "a", "--tags", "packages")) == {"a": 0}
    site.play("undo", "--limit", "a", "--tags", "builds")
    assert site.changes(before) == []


@pytest.mark.timeout(200)
def test_a_host_keeps_a_cpu_that_is_not_isolated(site: Site) -> None:
    before = site.look()
    site.part("--check", code=2, xdplab_boot=True, xdplab_isolated_cpus=[0])
    assert "all but CPU 0 may be isolated" in site.said
    assert site.changes(before) == []


@pytest.mark.timeout(200)
def test_an_installation_that_was_cut_off_is_undone(site: Site) -> None:
    """apt-get is killed at work, policy-rc.d stays, as when Ansible is killed; then somebody installs a package."""
    before = site.look()
    site.part(code=2, xdplab_more_packages=["xdplab-lab-cut"])
    assert site.lab.on("A", "cat", "/opt/xdplab-lab-cut/file")
    site.lab.put("A", "/usr/sbin/policy-rc.d", "#!/bin/sh\n# of xdplab's provision.yml, while it\nexit 101\n", 0o755)
    site.lab.on("A", "dpkg", "--install", f"{site.archive}/own-1.0.deb")
    site.play("undo", "--limit", "a")
    assert site.lab.on("A", "cat", "/opt/own/file") == "own"
    site.lab.on("A", "apt-get", "-q", "purge", "-y", "own")
    assert site.changes(before) == []


@pytest.mark.timeout(200)
def test_the_report_has_driver_and_firmware_of_each_port(site: Site) -> None:
    assert changed(site.play("report"))["a"] == 2  # with its folder, which a new checkout has not
    reported = json.loads(site.report.read_text(encoding="utf-8"))
    assert set(reported["hosts"]) == {"a", "b", "c"}
    assert set((b := reported["hosts"]["b"])["ports"]) == {"b0", "b1"}
    assert b["ports"]["b0"]["driver"]["driver"] == "veth"
    assert "firmware-version" in b["ports"]["b0"]["driver"]
    assert b["ports"]["b0"]["link"]["ifname"] == "b0"
    assert b["machine"]["/proc/sys/kernel/osrelease"] == os.uname().release
    assert site.report.stat().st_mode & 0o077 == 0
    assert changed(site.play("report")) == {"a": 0, "b": 0, "c": 0}
