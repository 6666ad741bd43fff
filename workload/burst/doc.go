// Package burst sends bursts of UDP at a bit rate, with pauses between them. It follows SeCoNetBench's "bursty traffic"
// (paper 004, section V.B.3: "small 1-second bursts of UDP traffic. Each burst had a throughput of 500 Kbps", by D-ITG;
// the payload of 653 bytes is its default there). The paper does not say how long the pauses were: here they are as
// long as the bursts unless the parameter off is set.
//
// A datagram of 653 bytes is sent every 10.4 ms, on each of the flows in turn. Nothing answers. The time of each
// datagram counts from when it was due until the sink's application has it. The source sleeps until shortly before the
// next one is due (traffic/flows), and the sink until one arrives.
package burst
