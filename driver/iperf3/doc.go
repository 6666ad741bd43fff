// Package iperf3 is the driver iperf3: tcp-stream and udp-rate, as its receiver counts them.
//
// Its --time counts whole seconds: a trial takes 1.3 s, of which traffic flows for one.
package iperf3
