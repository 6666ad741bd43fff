// Package sockperf is the driver sockperf. It drives udp-rr with its ping-pong test, which logs every packet, and
// udp-rate with its throughput test, whose server reports how many datagrams came.
//
// Version 3.7, which Debian and Ubuntu have, supports IPv4 only. A client sleeps for two seconds before it begins, and
// its --time counts whole seconds. A trial takes 3.8 s, of which it measures half a second (ping-pong) or one.
package sockperf
