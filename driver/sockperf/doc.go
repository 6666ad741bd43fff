// Package sockperf is the driver sockperf: udp-rr by its ping-pong, of which it logs every packet, and udp-rate by its
// throughput test, of which its server says how many datagrams came.
//
// Version 3.7, which Debian and Ubuntu have, speaks IPv4 only. A client sleeps for two seconds before it begins, and
// its --time counts whole seconds: a trial takes 3.8 s, of which it measures half a second (ping-pong) or one.
package sockperf
