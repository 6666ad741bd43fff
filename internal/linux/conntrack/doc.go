// Package conntrack fills, counts and empties the table of connections that netfilter tracks, through
// NETLINK_NETFILTER, and makes connections that it has to track. What it does, it does in the network namespace of the
// calling thread.
package conntrack
