// Package iperf3 is the driver iperf3: tcp-stream and udp-rate, as its receiver counts them.
//
// Its --time counts whole seconds: a trial has 1.5 s, of which traffic flows for one, and is over when it has ended.
package iperf3
