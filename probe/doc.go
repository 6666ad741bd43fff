// Package probe holds the kind of part that observes the kernel. A probe costs every packet something, so it is on only
// during trials of their own.
//
// A cell with a probe is a cell of its own, in the same lab as the cell without. Its figures are compared with those of
// the baseline that also has the probe, and with those of the same cell without the probe, which shows what the probe
// costs. The controller loads a probe before anything is built, and switches it on and off between the trials of a
// block. When a trial opens and when it ends, workers read the probe's counters from a file that they inherit.
package probe
