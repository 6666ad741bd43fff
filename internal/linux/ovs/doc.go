// Package ovs talks to Open vSwitch: to its database (RFC 7047), to a bridge in OpenFlow 1.4 with Nicira's extensions,
// and to the daemon itself, like ovs-appctl(8). The sockets of all three are in one directory, so that instances are
// separate.
package ovs
