// Package link makes, reads and removes links, their addresses and routes through rtnetlink. A [Handle] is a socket in
// one network namespace, for any number of requests.
package link
