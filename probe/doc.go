// Package probe is the kind of what is switched on during trials of their own because it costs every packet something.
//
// A cell with a probe is a cell of its own, in the same lab as the cell without: its figures are compared with those of
// the baseline that has the probe on as well, and with those of the same cell without, which is what the probe costs.
// The controller loads a probe before anything is built, and switches it on and off between the trials of a block.
// Workers read what it counts when a trial opens and when it ends, from a file that they inherit.
package probe
