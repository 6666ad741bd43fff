// Package ovs speaks to Open vSwitch: to its database (RFC 7047), to a bridge by OpenFlow 1.4 with Nicira's extensions,
// and to the daemon itself as ovs-appctl(8) does. All three are sockets in one directory, so that instances do not
// meet.
package ovs
