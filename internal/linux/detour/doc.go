// Package detour delays and drops the frames that a link receives, on kernels without the queueing discipline netem.
//
// An eBPF program at the link redirects each received frame to a TAP device. A process reads the frames there, keeps
// each one for its delay, and writes it back. A second program then makes the link receive it. Frames that the link
// sends are not affected.
package detour
