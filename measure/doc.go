// Package measure holds the units, records and statistics of nettoll: what a run writes down, and what may be concluded
// from it.
//
// It touches no kernel and imports nothing of ours. Records are in base units (s, byte, bit/s, packet/s, 1) and are
// scaled once, by [Format], when printed. The statistics are pure functions; each names its formula, the unit of
// each symbol and its source. [Analyze] is the one view of a run which every report uses, and which the controller uses
// at its looks.
//
// # The estimate
//
// Generations (everything built anew) are the independent observations; the blocks within one are not. So each
// generation is reduced to one number, the median log ratio of its blocks, and the interval is Student's t over these
// numbers: see [EstimateRatio].
package measure
