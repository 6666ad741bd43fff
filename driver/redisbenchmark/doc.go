// Package redisbenchmark is the driver redis-benchmark: kv's get or set in a closed loop, against the workload's own
// server.
//
// It ends when it has made a number of requests, and knows no time. So it is told to make more than it can, and to end
// when its trial does: then it says nothing more. What it says until then is a report every 250 ms: the rate and the
// mean latency since it began, by its own clock (src/redis-benchmark.c, showThroughput). The report at the end of the
// trial's whole seconds is what counts or, where they come late, the last one; how many requests there were follows
// from its rate. Percentiles it would only tell at an end of its own, after a number of requests that nobody knows
// before: there are none.
package redisbenchmark
