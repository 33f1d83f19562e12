# SPDX-License-Identifier: Apache-2.0
# Open vSwitch in a guest of `xdplab cost`: A and B are its ports, each a name and columns of its Interface row, RULES the
# lines of its flow table, DATAPATH and DAEMON what forwards; the arguments are settings of Open_vSwitch.
db=unix:/run/db.sock

# Whether XDP has flows in so many masks.
has_masks() {
	ovs-appctl -t /run/$DAEMON.*.ctl netdev-afxdp/show >/run/show || return 1
	$bb grep -Eq "\"n_masks\": *$1\>" /run/show && return
	$bb echo "flows in XDP have other masks than $1: $($bb grep -o '"n_masks": *[0-9]*' /run/show | $bb tr '\n' ' ')"
	return 1
}

# Open vSwitch counts the CPUs every 10 s, the first time when the clock is 10 s past boot: before that it has no handlers.
$bb sleep 12
$bb mkdir -p /run/openvswitch /etc/openvswitch &&
	ovsdb-tool create /run/conf.db /lane/vswitch.ovsschema &&
	ovsdb-server --remote=punix:/run/db.sock --pidfile=/run/ovsdb.pid --detach --log-file=/run/ovsdb.log \
		--no-chdir /run/conf.db &&
	ovs-vsctl --db=$db --no-wait init -- set Open_vSwitch . "$@" &&
	$DAEMON --pidfile=/run/vswitchd.pid --detach --no-chdir --log-file=/run/vswitchd.log $db &&
	ovs-vsctl --db=$db --timeout=60 add-br br0 -- set bridge br0 datapath_type="$DATAPATH" fail_mode=secure \
		-- add-port br0 "${A%% *}" -- set interface $A ofport_request=1 \
		-- add-port br0 "${B%% *}" -- set interface $B ofport_request=2 || return 1
for port in "${A%% *}" "${B%% *}"; do
	error=$(ovs-vsctl --db=$db get interface "$port" error)
	[ "$error" = "[]" ] && continue
	$bb grep -E 'WARN|ERR' /run/vswitchd.log
	$bb echo "$port: $error"
	return 1
done
$bb echo "$RULES" | ovs-ofctl --protocols=OpenFlow15 add-flows --bundle unix:/run/br0.mgmt -
