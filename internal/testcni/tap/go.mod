// The CNI plugin tap, apart from what nettoll depends on.
module github.com/nettoll/nettoll/internal/testcni/tap

go 1.26.0

tool github.com/containernetworking/plugins/plugins/main/tap

require (
	cyphar.com/go-pathrs v0.2.1 // indirect
	github.com/containernetworking/cni v1.3.0 // indirect
	github.com/containernetworking/plugins v1.9.1 // indirect
	github.com/coreos/go-iptables v0.8.0 // indirect
	github.com/cyphar/filepath-securejoin v0.6.0 // indirect
	github.com/opencontainers/selinux v1.13.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/safchain/ethtool v0.6.2 // indirect
	github.com/vishvananda/netlink v1.3.1 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	golang.org/x/sys v0.35.0 // indirect
	sigs.k8s.io/knftables v0.0.18 // indirect
)
