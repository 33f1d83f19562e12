// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include "report.h"
#include "util.h"
#include "watch.h"

/* The kernel's number for who has no rights (Documentation/admin-guide/sysctl/
 * fs.rst, overflowuid).
 */
#define NOBODY 65534

static int hold_dma_latency(struct run *run)
{
	__s32 us = run->opt.dma_latency_us;

	run->latency_fd = -1;
	if (us < 0)
		return 0;
	run->latency_fd = open("/dev/cpu_dma_latency", O_RDWR | O_CLOEXEC);
	if (run->latency_fd < 0 ||
	    write(run->latency_fd, &us, sizeof(us)) != sizeof(us))
		return fail(
			-errno,
			"cannot set dma_latency_us: /dev/cpu_dma_latency: %s",
			explain(-errno));
	return 0;
}

static int lock_memory(struct run *run)
{
	if (!run->opt.mlock)
		return 0;
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return fail(-errno,
			    "cannot lock memory: mlock: %s: raise ulimit -l",
			    explain(-errno));
	run->mlocked = true;
	return 0;
}

/* Sockets, rings and the link of the XDP program are open: to use and to close
 * them takes no privilege.
 */
static int give_up_privileges(const struct run *run)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];
	int at_end_of_parent = 0; /* goes with an identity: commit_creds() */

	if (!run->opt.unprivileged)
		return 0;
	if (prctl(PR_GET_PDEATHSIG, &at_end_of_parent) || setgroups(0, NULL) ||
	    setresgid(NOBODY, NOBODY, NOBODY) ||
	    setresuid(NOBODY, NOBODY, NOBODY) ||
	    prctl(PR_SET_PDEATHSIG, at_end_of_parent) ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_capget, &head, caps))
		return fail(-errno, "cannot give up privileges: %s",
			    explain(-errno));
	if (caps[0].effective | caps[1].effective | caps[0].permitted |
	    caps[1].permitted)
		return fail(-EPERM, "cannot give up privileges: capabilities "
				    "are left");
	return 0;
}

/* The main thread stays off the cores of the workers if there are others. */
static void leave_worker_cpus(const struct options *o)
{
	cpu_set_t cpus;
	int i;

	if (sched_getaffinity(0, sizeof(cpus), &cpus))
		return;
	for (i = 0; i < o->num_cpus; i++)
		CPU_CLR(o->cpus[i], &cpus);
	if (CPU_COUNT(&cpus))
		sched_setaffinity(0, sizeof(cpus), &cpus);
}

static const struct role_ops *role_of(const struct options *o)
{
	static const struct role_ops *const roles[] = {
		[ROLE_FORWARD] = &forward_role, [ROLE_REFLECT] = &reflect_role,
		[ROLE_SINK] = &sink_role,	[ROLE_GEN] = &gen_role,
		[ROLE_PING] = &ping_role,	[ROLE_PROBE] = &probe_role,
		[ROLE_NF] = &nf_role,
	};

	return roles[o->role];
}

static int open_programs(struct run *run)
{
	const struct options *o = &run->opt;
	int i, ns, err = 0;

	for (i = 0; i < XSK_PORTS; i++)
		run->programs[i] =
			(struct program){ .link_fd = -1,
					  .sockets_fd = -1,
					  .stamps = o->io.stages ? "software" :
								   "none",
					  .mode = "none" };
	if (run->role->attach)
		return run->role->attach(o, run->programs, &run->shared);
	if (o->backend == BACKEND_AF_PACKET || !o->io.receive)
		return 0;
	for (i = 0; !err && i < o->num_ports; i++) {
		ns = netns_enter(port_netns(&o->ports[i]));
		if (ns < 0)
			return fail(ns,
				    "cannot enter network namespace: %s: %s",
				    o->ports[i].netns, explain(ns));
		err = check_no_xdp(o->ports[i].ifname, o->ports[i].ifindex);
		if (!err)
			err = program_open(&run->programs[i], o, &o->ports[i]);
		netns_leave(ns);
	}
	return err;
}

int run_open(struct run *run)
{
	const struct options *o = &run->opt;
	int err;

	run->role = role_of(o);
	err = hold_dma_latency(run) ?: lock_memory(run) ?: open_programs(run);
	while (!err && run->num_workers < options_workers(o)) {
		err = worker_open(&run->workers[run->num_workers], run->role, o,
				  run->num_workers, run->programs);
		run->num_workers++;
	}
	return err;
}

static void note_errors(struct run *run)
{
	int i;

	for (i = 0; !run->error[0] && i < run->num_workers; i++) {
		const struct worker *w = &run->workers[i];

		if (!w->error)
			continue;
		snprintf(run->error, sizeof(run->error), "socket broke: %s: %s",
			 w->broken ? w->broken->ifname : "worker",
			 w->error == -ENETDOWN || w->error == -ENXIO ?
				 "the interface is down or gone" :
				 explain(w->error));
	}
}

int run_start(struct run *run)
{
	int i, err = 0;

	err = give_up_privileges(run);
	run->started_ns = now_ns();
	for (i = 0; !err && i < run->num_workers; i++)
		err = worker_start(&run->workers[i]);
	leave_worker_cpus(&run->opt);
	return err ?: print_ready(run);
}

int run_traffic(struct run *run)
{
	int i, err;

	err = watch(run);
	for (i = 0; i < run->num_workers; i++)
		worker_stop(&run->workers[i]);
	run->ended_ns = now_ns();
	programs_check_clocks(run->programs, &run->opt);
	note_errors(run);
	return err;
}

void run_close(struct run *run)
{
	int i;

	for (i = 0; i < run->num_workers; i++)
		worker_stop(&run->workers[i]);
	for (i = 0; i < run->num_workers; i++)
		worker_close(&run->workers[i]);
	for (i = 0; i < XSK_PORTS; i++)
		program_close(&run->programs[i]);
	if (run->shared)
		run->role->detach(run->shared);
	if (run->latency_fd >= 0)
		close(run->latency_fd);
}
