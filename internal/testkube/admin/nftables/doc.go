// Package nftables stands in for github.com/google/nftables in the module admin. It has what kube-network-policies calls,
// and loads nothing: rules of iptables do the work, see [Conn.Flush].
package nftables
