// Package iptables loads, compares, changes and removes the table "filter" of iptables, by the programs of either
// variant: those that speak to ip_tables (legacy) and those that speak to nf_tables. What it does, it does in the
// network namespace of the calling thread, which is locked.
package iptables
