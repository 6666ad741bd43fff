// Package kv is the workload kv: many clients set and get values of a key-value store.
//
// The protocol is RESP, version 2, of Redis and many other stores
// (https://redis.io/docs/latest/develop/reference/protocol-spec/). The server is nettoll's own, which supports SET, GET
// and PING and keeps its values, or an external one. Clients are connections, all driven by one thread. Each has one
// request in flight, or as many as the pipeline is deep.
//
// Keys are written as by redis-benchmark: key:000000000042. The key of a request depends on the seed and on the number
// of the request in its trial, and is the same in all stacks. Values are noise of equal length. Before the first trial,
// the server has a value for each key: nettoll's own server is made with them, and others are filled before each trial.
//
// The value in a response must have the length with which it was set. A response that reports a failure, or that there
// is no value, counts as an error.
package kv
