// Package measure holds the units, records and statistics of nettoll: the records that a run writes, and the
// conclusions that may be drawn from them.
//
// It uses no kernel and imports nothing of ours. Records are in base units (s, byte, bit/s, packet/s, 1). [Format]
// scales them once, when they are printed. The statistics are pure functions; each names its formula, the unit of each
// symbol and its source. Every report uses [Analyze], and so does the controller at its looks.
//
// # The estimate
//
// Generations (everything built anew) are independent observations; the blocks within one are not. So each generation
// is reduced to one number, the center of the log ratios of its blocks (see [Center]). The interval is Student's t over
// these numbers: see [EstimateRatio].
package measure
