// Package chart chooses the marks of a run's figures: changes over the baseline, the trials of every stack,
// distributions of latencies, and what a parameter does.
//
// What the figures say comes from package report, and package figure draws them.
package chart
