// Package journal records what a run makes that outlives its namespaces. Each run has one file, in a directory that
// only this user can access. It is written before anything is made. If the run is killed, [Place.Clean] removes what
// its journal names, and nothing else.
//
// A file has lines of JSON. The first line names the process of the run; each other line is a [host.Note] of a step,
// with its lab:
//
//	{"run":{"pid":4711,"started":183422,"boot":"…","pids":"pid:[4026531836]","net":"net:[4026531840]"}}
//	{"lab":"0-3","id":"X4Q…","step":{"kind":"move-link","from_ns":"@machine","from":"eth1","ns":"src0","name":"eth1"}}
//	{"lab":"0-3","id":"X4Q…","kept":{"mac":"52:54:00:12:34:56","mtu":1500,"up":true}}
//	{"lab":"0-3","id":"X4Q…","removed":true}
//
// The process of the run holds the lock of the file, together with its agents. A process that gets the lock therefore
// knows that none of them is left. An incomplete line counts as not written: what it announces was not made.
package journal
