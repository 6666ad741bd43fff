// Package chart chooses the marks of a run's figures: changes over the baseline, the trials of every stack,
// distributions of latencies, and curves over a parameter.
//
// The words of the figures come from package report, and package figure draws them.
package chart
