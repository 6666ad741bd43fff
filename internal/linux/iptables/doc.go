// Package iptables loads, compares, changes and removes the table "filter" of iptables, with the programs of either
// variant: those for ip_tables (legacy) and those for nf_tables. It works in the network namespace of the calling
// thread, which must be locked.
package iptables
