// Package iperf3 is the driver iperf3. It drives tcp-stream and udp-rate, as the receiver counts them.
//
// Its --time counts whole seconds. A trial takes 2.5 s, of which traffic flows for one, and is over as soon as both
// ends have ended: one pair takes 1.1 s. Pairs do not begin together, but each when its own programs have agreed. With
// many pairs on few CPUs their seconds lie up to a few hundred ms apart, so that a sum of rates is a little more than
// ever flowed at once.
package iperf3
