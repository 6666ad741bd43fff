package dialogue

// A Verdict is the result of checking the start of an answer.
type Verdict int

// The verdicts.
const (
	Partial Verdict = iota // the length of the answer is not known yet: more data is needed
	Good                   // the requested answer
	Bad                    // an answer that reports a failure: it counts as an error
	Alien                  // not an answer to this request. The trial fails, because what follows cannot be interpreted
)

// An Asker is the client's side of a protocol. Both methods are called in the hot loop: they do not allocate, and are
// nosplit if possible. (They are methods because a nosplit method stays nosplit when it is called through an interface.
// A function value is called through another function, which the compiler makes with a stack check; there the Go
// scheduler takes the thread, up to a hundred times a second.)
type Asker interface {
	// Request returns the bytes of the request with a number. It is a pure function, and is called again if the socket
	// did not take all of them. The result is valid until the next call.
	Request(number uint64) []byte

	// Answer checks the answer to a request from its start: all of it that has arrived, at least 1 byte. Once the
	// length of the answer is known, Answer returns it, in bytes. The rest is then skipped, and the next call is for
	// the next answer. As long as Answer returns Partial, it may be called again with more of the same answer.
	Answer(number uint64, head []byte) (size int, v Verdict)
}

// Asks are the requests of a client.
type Asks struct {
	Asker

	// Head is the number of bytes, 1 to 32 KiB, from which the length of every answer is known. If it is not known by
	// then, the data is not an answer.
	Head int

	// Explain, if set, is called between trials. It describes an Alien answer, or the first Bad one of a trial, from
	// its first bytes: at most Head. If it is nil or returns "", these bytes are quoted.
	Explain func(number uint64, head []byte) string
}

// Then says what a server does next with a connection.
type Then int

// The choices.
const (
	Next   Then = iota // read the next request
	Wait               // the request is incomplete: wait for more of it
	HangUp             // close the connection after the answers are sent
	Over               // the request was a [ClientSpec.Farewell]: the trial is over after its answer
)

// An Answerer is the server's side of a protocol.
type Answerer interface {
	// Serve answers the first request in in, by appending to out, which it returns. taken is the length of the request
	// in bytes. For an incomplete request (Wait), it is the least length known so far, so that there is room for it.
	//
	// It is called in the hot loop: once all buffers have their sizes, it does not allocate, and it is nosplit if
	// possible. The request is no longer valid after it returns.
	Serve(in, out []byte) (taken int, reply []byte, then Then)
}

// farewell is an Asker that only requests the end.
type farewell struct {
	request []byte
	answer  int // bytes
}

// Request implements [Asker].
//
//go:nosplit
func (f *farewell) Request(uint64) []byte { return f.request }

// Answer implements [Asker].
//
//go:nosplit
func (f *farewell) Answer(uint64, []byte) (int, Verdict) { return f.answer, Good }
