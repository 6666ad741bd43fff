// Package byhand lets two people, shells or machines run any workload between them: a sink that waits, and a source
// that asks it for trials and says what came of each.
//
// Both ends talk over one TCP connection, the line. What they say are frames of JSON, one answer to each request of the
// source:
//
//	hello    both say their versions; other versions of the protocol are refused. A sink with a token sends a nonce, and
//	         the source proves that it knows the token. A source that has to wait is told its place every two seconds,
//	         and answers
//	echo     how long a round trip takes, and whether full-size packets pass
//	open     the workload, its parameters, ports and seed; the sink checks them as if a user had written them, counts
//	         what they take, and opens its endpoints
//	ready    the source's endpoints are open, too: the sink accepts what they have connected
//	prepare  the number of the next trial; both ends forget the last one
//	go       the sink opens the trial, half a round trip from now; the source does when it has the answer, which is the
//	         same moment
//	collect  the sink's samples, when its threads are done
//	probe    nothing has arrived: the sink answers whatever reaches its first port, so that the source can find out what
//	         does not
//	end      that was all: who ends the connection without it has died, or was interrupted
//
// Every interval is a trial of the workload as nettoll run knows it, with its warm-up, window and drain, and between
// two of them nothing is sent for some round trips. Times are each machine's own: what the workloads send carries the
// time since the opening.
//
// Neither side trusts the other. A sink hears the hello itself; all that follows is heard by a process that serves one
// source and ends with it (see [Sink] and [ServeSession]). There a request has its turn (step.takes) and a deadline,
// memory is counted before it is given, and the kernel holds the process to it. The sink opens sockets only towards the
// address that the line comes from, and no parameter makes it read a file or start a program: workloads that would say
// so (workload.Description.ByHand).
package byhand
