// Package command is the workload command: any program at the source, optionally one at the sink, and a figure taken
// from the output of one of them.
//
// It is for programs that nettoll does not know: another load generator, an application with its own benchmark, a
// script. Both commands are started in each trial, in the network namespaces of their containers and with nettoll's
// privileges there: running an experiment runs its commands. For that reason the workload does not exist by hand
// (package byhand), where neither end trusts the other.
//
// A command is a line of words in shell syntax, including quotes, but without a shell: no variables, patterns, pipes or
// redirections, unless shell is true. In each word, {local} stands for the container's own address, {remote} for the
// address of the other end, and {port} for the sink's port. {seconds} is the number of whole seconds that the source's
// command has, and {pair} the number of the pair. Other words in braces, and braces after a $ or a %, are left
// unchanged.
//
// The sink's command is started before the trial opens, and has to be ready soon: when it listens at {port}, or after a
// fixed time. When the source's connections are gone, or 0.2 s before the trial is over, it gets a SIGINT, and 0.2 s
// later a SIGKILL. The source's command has to end by itself within the trial. Processes that either has left behind
// are killed.
//
// A figure is a number in the standard output: at a path in a JSON document, or in a group of the last match of a
// regular expression. With several pairs, rates are added up, and latencies and other durations are averaged. The CPU
// time is that of all started processes, including their start and end, for {seconds}.
package command
