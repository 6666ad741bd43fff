// Package redisbenchmark is the driver redis-benchmark. It drives kv's get or set in a closed loop, against the
// workload's own server.
//
// redis-benchmark ends after a number of requests and has no time limit. So it is started with more requests than it
// can make, and ended when its trial ends: it prints no final report then. Until then it reports every 250 ms: the rate
// and the mean latency since it began, by its own clock (src/redis-benchmark.c, showThroughput). The report at the end
// of the trial's whole seconds counts. If reports come late, the last one counts. The number of requests follows from
// its rate. It prints percentiles only after its own number of requests, which is not known in advance. So there are no
// percentiles.
package redisbenchmark
