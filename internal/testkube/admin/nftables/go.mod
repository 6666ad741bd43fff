// What kube-network-policies uses of github.com/google/nftables, without any effect, see nftables.go.
module github.com/google/nftables

go 1.26.0
