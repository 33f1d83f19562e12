# SPDX-License-Identifier: Apache-2.0
# What the tries of cost/features.py have in common; their results are lines of the console.
# shellcheck shell=sh
exec >/dev/console 2>&1
$bb mount -t tracefs tracefs /sys/kernel/tracing
tracing=/sys/kernel/tracing

# frames of a veth are received in a NAPI, as those of a card are
[ "$DRIVER" != veth ] || ethtool -K a1 gro on

# a file of sysfs, and the MTU, of both ports
all() { for port in a0 a1; do $bb echo "$2" >"/sys/class/net/$port/$1" || return 1; done; }
mtu() { for port in a0 a1; do ip link set "$port" mtu "$1" || return 1; done; }

# executions of a function of the kernel, where it has probes
count() {
	{ $bb echo "p:lane/$1 $1" >$tracing/kprobe_events && $bb echo 1 >$tracing/events/lane/enable; } 2>/dev/null
	true
}
counted() {
	$bb sed 's/^/ran /' $tracing/kprobe_profile
	{ $bb echo 0 >$tracing/events/lane/enable; $bb echo >$tracing/kprobe_events; } 2>/dev/null
}

# of the threads of NAPIs
switches() {
	for each in /proc/[0-9]*; do
		read -r name <"$each/comm" && case $name in napi/a[01]-*) $bb grep ctxt_switches "$each/status" ;; esac
	done 2>/dev/null
}

one() { $bb timeout -s KILL "$LIMIT_S" xsk "/run/$1.json"; }

# a sink of xsk, and its sender once it is there
several() {
	one "$1" >/run/sink.out 2>&1 &
	sink=$!
	for _ in $($bb seq 100); do $bb grep -q ready /run/sink.out && break; $bb sleep 0.1; done
	$bb sleep "$LINK_S"
	one sender >/run/sender.out 2>&1 || $bb grep -v '^{' /run/sender.out
	$bb sed -n '$s/^{/sender &/p' /run/sender.out
	wait $sink
	status=$?
	$bb cat /run/sink.out
	return $status
}

$bb echo "feature claims begin"
netdev features a0
$bb echo "feature claims end $?"
