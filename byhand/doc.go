// Package byhand lets two people, shells or machines run any workload between them. A sink waits; a source asks it for
// trials and reports the result of each.
//
// Both ends talk over one TCP connection, the line. Messages are JSON frames, with one answer to each request of the
// source:
//
//	hello    both send their versions; other versions of the protocol are refused. A sink with a token sends a nonce,
//	         and the source proves that it knows the token. A source that has to wait receives its place every two
//	         seconds, and answers
//	echo     how long a round trip takes, and whether full-size packets pass
//	open     the workload, its parameters, ports and seed; the sink checks them as if a user had written them, counts
//	         the memory that they and their sockets need, and opens its endpoints
//	ready    the source's endpoints are open, too: the sink accepts their connections
//	prepare  the number of the next trial; both ends discard the last one
//	go       the sink opens the trial half a round trip from now; the source opens it when it has the answer, which is
//	         the same moment
//	collect  the sink's samples, when its threads are done
//	probe    nothing has arrived: the sink answers whatever reaches its first port, so that the source can find out which
//	         packets do not pass
//	end      the source is done; a connection that ends without it means that the source died or was interrupted
//
// Every interval is a trial of the workload as in nettoll run, with its warm-up, window and drain. Between two trials
// nothing is sent for some round trips. Each machine uses its own clock: packets of the workloads carry the time since
// the opening.
//
// Neither side trusts the other. The sink itself reads only the hello. A process that serves one source, and ends with
// it, reads everything after that (see [Sink] and [ServeSession]). There each request is valid only in its turn
// (step.takes) and has a deadline. Memory is counted before it is granted, with that of the kernel for data in sockets
// (session.afford), and the kernel enforces the limit on the process and on each buffer. The sink opens
// sockets only towards the address that the line comes from. No parameter makes it read a file or start a program:
// workloads that would do so declare it (workload.Description.ByHand).
package byhand
