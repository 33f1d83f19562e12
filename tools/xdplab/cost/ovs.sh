# SPDX-License-Identifier: Apache-2.0
# Open vSwitch in a guest of `xdplab cost`, with a1 and b1 as ports of a bridge and one rule; BRIDGE, PORT and CONFIG are
# settings of the bridge, of each port and of Open_vSwitch.
db=unix:/run/db.sock

# Open vSwitch counts the CPUs every 10 s, the first time when the clock is 10 s past boot: before that it has no handlers.
$bb sleep 12
$bb mkdir -p /run/openvswitch /etc/openvswitch &&
	ovsdb-tool create /run/conf.db /lane/vswitch.ovsschema &&
	ovsdb-server --remote=punix:/run/db.sock --pidfile=/run/ovsdb.pid --detach --log-file=/run/ovsdb.log \
		--no-chdir /run/conf.db &&
	ovs-vsctl --db=$db --no-wait init -- set Open_vSwitch . other_config:pmd-cpu-mask=0x1 $CONFIG &&
	ovs-vswitchd --pidfile=/run/vswitchd.pid --detach --no-chdir --log-file=/run/vswitchd.log $db &&
	ovs-vsctl --db=$db --timeout=60 add-br br0 -- set bridge br0 $BRIDGE fail_mode=secure \
		-- add-port br0 a1 -- set interface a1 ofport_request=1 $PORT \
		-- add-port br0 b1 -- set interface b1 ofport_request=2 $PORT &&
	ovs-ofctl add-flow unix:/run/br0.mgmt in_port=1,actions=output:2 || return 1
for port in a1 b1; do
	error=$(ovs-vsctl --db=$db get interface $port error)
	[ "$error" = "[]" ] && continue
	$bb grep -E 'WARN|ERR' /run/vswitchd.log
	$bb echo "$port: $error"
	return 1
done
