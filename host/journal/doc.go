// Package journal keeps what a run makes that outlives its namespaces: one file a run, in a directory of this user
// alone, written before anything is made. When the run is killed, [Place.Clean] removes what its journal names, and
// nothing else.
//
// A file is lines of JSON. The first says which process the run is; each other is a [host.Note] of a step, with the
// lab that it belongs to:
//
//	{"run":{"pid":4711,"started":183422,"boot":"…","pids":"pid:[4026531836]","net":"net:[4026531840]"}}
//	{"lab":"0-3","id":"X4Q…","step":{"kind":"move-link","from_ns":"@machine","from":"eth1","ns":"src0","name":"eth1"}}
//	{"lab":"0-3","id":"X4Q…","kept":{"mac":"52:54:00:12:34:56","mtu":1500,"up":true}}
//	{"lab":"0-3","id":"X4Q…","removed":true}
//
// The process that runs holds the lock of the file, and its agents hold it with it: who gets the lock knows that
// none of them is left. A line that is not whole was not written: what it announces was not made.
package journal
