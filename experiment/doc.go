// Package experiment is the first layer. It turns a user's request into the cells to measure and the labs to build,
// with a reason for everything that it leaves out. It is pure: no kernel, no files, no clock.
package experiment
