package dialogue

// A Verdict is what the beginning of an answer says.
type Verdict int

// The verdicts.
const (
	Partial Verdict = iota // how long the answer is cannot be told yet: more of it has to come
	Good                   // it is what was asked for
	Bad                    // it is an answer, which says that something failed: it counts as an error
	Alien                  // it is no answer to this request. The trial fails: what follows cannot be told apart any more
)

// An Asker is a client's side of a protocol. Both methods are called in the hot loop: they allocate nothing, and are
// nosplit where they can be. (They are methods because a nosplit one is that when it is called by an interface; a
// function value is called by another function, which the compiler makes with a stack check: there the Go scheduler
// takes the thread, up to a hundred times a second.)
type Asker interface {
	// Request returns the bytes of the request of a number. It is a pure function: it is called again where the socket did
	// not take all of them. What it returns holds until it is called again.
	Request(number uint64) []byte

	// Answer judges the answer to a request from its beginning: all of it that has come, 1 byte at least. Once its length
	// is known it is returned, in bytes; what has not come of it is then skipped, and Answer is called only once more, for
	// the next one. It may be asked again and again with more of the same answer as long as it says Partial.
	Answer(number uint64, head []byte) (size int, v Verdict)
}

// Asks are what a client asks.
type Asks struct {
	Asker

	// Head is by how many bytes an answer's length is known at the latest, 1 to 32 KiB: who does not know it by then has
	// got no answer.
	Head int

	// Explain, if set, says between two trials what was wrong with an Alien answer, or with the first Bad one of a trial,
	// from its beginning: Head bytes at most. Where it is nil, or says "", the beginning is quoted.
	Explain func(number uint64, head []byte) string
}

// Then is what a server does next with a connection.
type Then int

// The choices.
const (
	Next   Then = iota // the next request
	Wait               // this one is not whole: more of it has to come
	HangUp             // close the connection, when what was answered is sent
	Over               // the request was a [ClientSpec.Farewell]: the trial is over when this is answered
)

// An Answerer is a server's side of a protocol.
type Answerer interface {
	// Serve answers the one request that in begins with, by appending to out, which it returns. Taken is how many bytes
	// the request had. Of one that is not whole (Wait) it is how many it will have at least, as far as is known, so that
	// there is room for them.
	//
	// It is called in the hot loop: once everything has its size it allocates nothing, and it is nosplit where it can be.
	// The request is gone when it returns.
	Serve(in, out []byte) (taken int, reply []byte, then Then)
}

// farewell asks for nothing but the end.
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
