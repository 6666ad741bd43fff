// Package link makes, reads and removes links, their addresses and routes by rtnetlink: a [Handle] is a socket in one
// network namespace, on which any number of requests are made.
package link
