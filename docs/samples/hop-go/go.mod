module hop

go 1.21

require (
	github.com/asavie/xdp v0.3.3
	github.com/vishvananda/netlink v1.1.0
)
