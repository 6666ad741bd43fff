// Package nft makes, compares and removes tables of nftables, through NETLINK_NETFILTER. It works in the network
// namespace of the calling thread.
package nft
