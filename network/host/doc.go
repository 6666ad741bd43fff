// Package host is the network "host": containers share the namespace and the addresses of their host, so there is
// nothing between their sockets but the host itself. It is the baseline of most experiments, and the papers' mode
// "none".
//
// On one host the traffic takes the loopback link, with the MTU of the lab; across hosts it takes the underlay.
package host
