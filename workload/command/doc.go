// Package command is the workload command: any program at the source, and if need be one at the sink, and a figure
// taken from what one of them prints.
//
// It is for what nettoll does not know: another load generator, an application with its own benchmark, a script. Both
// commands are started anew in each trial, in the network namespaces of their containers and with the rights that
// nettoll has there: whoever runs an experiment runs its commands. That is also why there is none by hand (package
// byhand): neither end trusts the other there.
//
// A command is a line of words as a shell has it, quotes included, and no shell: no variables, patterns, pipes or
// redirections, unless shell is true. In each word {local}, {remote}, {port}, {seconds} and {pair} stand for the
// container's own address, that of the other end, the sink's port, how many whole seconds the source's command has, and
// the number of the pair. What stands in other braces, or in braces behind a $ or a %, is left as it is.
//
// The sink's command is started before the trial opens, and has to be ready soon: it listens at {port}, or has had some
// time. When the source's connections are gone, or 0.2 s before the trial is over, it gets a SIGINT, and 0.2 s later a
// SIGKILL. The source's has to end by itself within the trial. What either has started and left behind is killed.
//
// A figure is a number in what was printed to the standard output: that of a JSON document at a path, or what the last
// match of a regular expression has in a group. With several pairs rates are added up, and of latencies and other
// durations the mean is taken. The processor time is that of whatever was started, its start and its end included, for
// {seconds}.
package command
