// Package burst is bursts of UDP at a bit rate, with pauses between them: SeCoNetBench's "bursty traffic" (paper 004,
// section V.B.3: "small 1-second bursts of UDP traffic. Each burst had a throughput of 500 Kbps", by D-ITG; the payload
// of 653 bytes is its default there). How long the pauses were is not said: here they are as long as the bursts unless
// the parameter off says otherwise.
//
// A datagram of 653 bytes goes every 10.4 ms, from each of the flows in turn. Nothing answers; each is timed from when
// it was due to when the sink's application has it. The source sleeps until shortly before the next one is due
// (traffic/flows), the sink until one comes.
package burst
