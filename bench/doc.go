// Command bench compares nettoll with specialists on this machine: with sockperf and iperf3 on the same path, with the
// smallest loop that makes the same links, and with what its own design allows. It prints a table in Markdown, and how
// far it is on standard error.
//
// What is compared is measured in rounds: each visits everything once in a new random order, on one lab that a group of
// rounds shares. A ratio is that of a round, its interval comes from the groups ([measure.EstimateRatio]).
package main
