// Package experiment is the first layer: it turns what a user asks for into the cells to measure and the labs to build,
// with a reason for everything it leaves out. It is pure: no kernel, no files, no clock.
package experiment
