// Package conntrack fills, counts, lists and empties netfilter's table of tracked connections, through
// NETLINK_NETFILTER, and makes connections that netfilter has to track. It works in the network namespace of the
// calling thread.
package conntrack
