// Package detour delays and loses the frames that a link receives, on kernels without the queueing discipline netem.
//
// A program of eBPF at the link sends each frame that it receives to a TAP device. A process reads the frames there,
// keeps each one as long as it is to be delayed, and writes it back; a second program then has the link receive it. The
// frames that the link sends are not touched.
package detour
