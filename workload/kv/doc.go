// Package kv is the workload kv: values of a key-value store, set and got by many clients at once.
//
// The protocol is RESP, version 2, in which Redis and many others are spoken to
// (https://redis.io/docs/latest/develop/reference/protocol-spec/). The server is one of nettoll's own, which knows SET,
// GET and PING and keeps what it is told, or somebody else's. Clients are connections, all of them driven by one
// thread; each has one request on the way, or as many as the pipeline is deep.
//
// Keys are as redis-benchmark writes them, key:000000000042. Which one a request is about follows from the seed and the
// number of the request in its trial: it is the same in all stacks. Values are noise and all have the same length.
// Before the first trial the server has a value for each key: nettoll's own is made with them, others are told them
// before each trial.
//
// The value in a response has to have the length that it was set with; a response that says that something failed
// counts as an error, also one that says that there is no value.
package kv
