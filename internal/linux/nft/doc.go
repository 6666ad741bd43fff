// Package nft makes, compares and removes tables of nftables, through NETLINK_NETFILTER. What it does, it does in the
// network namespace of the calling thread.
package nft
