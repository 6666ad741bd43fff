// Command bench compares nettoll with specialists on this machine: with sockperf and iperf3 on the same path, with the
// smallest loop that makes the same links, and with the limits of its own design. It prints a table in Markdown, and
// its progress on standard error.
//
// Everything compared is measured in rounds. A round visits everything once in a new random order, on one lab that a
// group of rounds shares. Each round gives a ratio. The groups give its interval ([measure.EstimateRatio]).
package main
