// Package iperf3 is the driver iperf3: tcp-stream and udp-rate, as its receiver counts them.
//
// Its --time counts whole seconds: a trial has 2.5 s, of which traffic flows for one, and is over as soon as both ends
// have ended: one pair takes 1.1 s. Pairs do not begin together, but each when its own programs have agreed: with many
// pairs on few CPUs their seconds lie up to some hundred ms apart, and a sum of rates is that of a bit more than was
// ever there at once.
package iperf3
