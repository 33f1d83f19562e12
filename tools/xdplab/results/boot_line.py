# SPDX-License-Identifier: Apache-2.0
"""A kernel's command line, of which what bears on figures may go out: other options may hold anything, also secrets."""

import re

#: Keys of Documentation/admin-guide/kernel-parameters.txt whose values say how a machine performs, and of whom nothing.
_KEPT = re.compile(
    r"(?:isolcpus|nohz|nohz_full|rcu_\w+|rcutree\.\w+|rcupdate\.\w+|irqaffinity|mitigations|spectre_\w+|pti|mds|l1tf"
    r"|retbleed|srbds|tsx\w*|spec_\w+|hugepages|hugepagesz|default_hugepagesz|transparent_hugepage|numa_balancing"
    r"|intel_idle\.\w+|intel_pstate|amd_pstate|processor\.\w+|cpuidle\.\w+|cpufreq\.\w+|idle|preempt|threadirqs"
    r"|skew_tick|tsc|clocksource|nosmt|smt|maxcpus|nr_cpus|iommu|iommu\.\w+|intel_iommu|amd_iommu|pcie_aspm|swiotlb"
    r"|nowatchdog|nmi_watchdog|nosoftlockup|audit|psi|cgroup_disable|workqueue\.\w+|haltpoll\.\w+|cpuidle_haltpoll\.\w+"
    r"|console|quiet|page_reporting\.\w+)"
)
_OPTION = re.compile(r'(?:[^\s"]|"[^"]*")+')
#: The host's own name, as an option and as the fifth part of ip= (Documentation/admin-guide/nfs/nfsroot.rst).
_HOST = re.compile(r"(?:(?<!\S)systemd\.hostname=|(?<!\S)ip=(?:[^:\s]*:){4})([A-Za-z0-9][\w.-]*)")


def hosts(line: str) -> list[str]:
    """Names that it gives its machine."""
    return _HOST.findall(line)


def withheld(line: str) -> list[tuple[str, str]]:
    """Options that must not go out, and what stands for each; words without a value stay where they are plain."""
    found = []
    for option in _OPTION.findall(line):
        key, is_set, _ = option.partition("=")
        if not (_KEPT.fullmatch(key) or (not is_set and re.fullmatch(r"[a-z_-]+", key))):
            plain = is_set and re.fullmatch(r"[\w.-]+", key)
            found.append((option, f"{key}=(withheld)" if plain else "(withheld)"))
    return found
