package kv

import (
	"fmt"

	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/dialogue"
)

const (
	// mostArgs is the largest number of arguments of a command, and keptArgs is how many of them are used.
	mostArgs = 1024
	keptArgs = 4

	// longestCommand is the largest length of a command in bytes: a set of the longest value, with room for a key.
	longestCommand = largest + 64<<10

	// mostMemory is how many bytes of keys and values the store accepts.
	mostMemory = 256 << 20

	// farewell is the command with which the source ends its trial. No command of Redis has this name.
	farewell = "*1\r\n$12\r\nNETTOLL.OVER\r\n"
)

// store is the embedded server. It holds each value in the form of its answer, a bulk string with its length. The
// functions of its hot loop are nosplit.
type store struct {
	values table
	memory int
	args   [keptArgs]arg
}

// arg is one argument of a command.
type arg struct{ bulk, bytes []byte } // with its length before it and the line end after it, and without

// newStore makes a store with values for this number of keys.
func newStore(keys, payload int) *store {
	s := new(store)
	noise := traffic.Payload((1 + keys) * payload)[payload:] // the first part is what sources set
	bulk := make([]byte, 0, payload+lengthOf(payload)+len("$\r\n\r\n"))
	for i := range keys {
		bulk = fmt.Appendf(bulk[:0], "$%d\r\n", payload)
		bulk = append(append(bulk, noise[i*payload:][:payload]...), "\r\n"...)
		s.put(keyOf(i), bulk)
	}
	return s
}

// put stores a value. It returns false if there is no room.
//
//go:nosplit
func (s *store) put(key, bulk []byte) bool {
	v := s.values.find(key)
	if v == nil || len(bulk) > cap(v.bulk) {
		return s.grow(v, key, bulk)
	}
	v.bulk = v.bulk[:len(bulk)]
	copy(v.bulk, bulk)
	return true
}

// grow makes room for a value that has none, or too little.
func (s *store) grow(v *slot, key, bulk []byte) bool {
	more := len(bulk)
	if v != nil {
		more -= cap(v.bulk)
	} else {
		more += len(key)
	}
	if s.memory+more > mostMemory {
		return false
	}
	s.memory += more
	if v == nil {
		v = s.values.add(key)
	}
	v.bulk = append(make([]byte, 0, len(bulk)), bulk...)
	return true
}

// Serve implements [dialogue.Answerer].
//
//go:nosplit
func (s *store) Serve(in, out []byte) (int, []byte, dialogue.Then) {
	args, n, wrong := s.parse(in)
	switch {
	case wrong != "":
		return len(in), append(append(append(out, "-ERR Protocol error: "...), wrong...), "\r\n"...), dialogue.HangUp
	case args == 0:
		return n, out, dialogue.Wait
	}
	out, then := s.execute(args, out)
	return n, out, then
}

// parse reads the command at the start of in. It returns the number of arguments, the first few of which are kept, and
// the length in bytes. For an incomplete command, the number is 0 and the length is the least one. For data that is not
// a command, it returns the reason.
//
//go:nosplit
func (s *store) parse(in []byte) (args, n int, wrong string) {
	if in[0] != '*' {
		return 0, 0, "commands are arrays"
	}
	args, at := number(in, 1)
	switch {
	case at == 0:
		return 0, 0, ""
	case at < 0 || args == 0 || args > mostArgs:
		return 0, 0, "invalid multibulk length"
	}
	for i := range args {
		if at >= len(in) {
			return 0, at + 1, ""
		}
		if in[at] != '$' {
			return 0, 0, "expected '$'"
		}
		size, from := number(in, at+1)
		end := from + size + len("\r\n")
		switch {
		case from == 0:
			return 0, len(in) + 1, ""
		case from < 0 || end > longestCommand:
			return 0, 0, "invalid bulk length"
		case end > len(in):
			return 0, end, ""
		case in[end-2] != '\r' || in[end-1] != '\n':
			return 0, 0, "a string does not end where it says"
		}
		if i < keptArgs {
			s.args[i] = arg{bulk: in[at:end], bytes: in[from : end-2]}
		}
		at = end
	}
	return args, at, ""
}

// execute answers a command with this many arguments.
//
//go:nosplit
func (s *store) execute(args int, out []byte) ([]byte, dialogue.Then) {
	name, key := s.args[0].bytes, s.args[1].bytes
	switch {
	case is(name, "GET"):
		if args != 2 {
			return wrongArgs(out, "get"), dialogue.Next
		}
		if v := s.values.find(key); v != nil {
			return append(out, v.bulk...), dialogue.Next
		}
		return append(out, missing...), dialogue.Next
	case is(name, "SET"):
		switch {
		case args < 3:
			return wrongArgs(out, "set"), dialogue.Next
		case args > 3:
			return append(out, "-ERR syntax error: options of SET are not known here\r\n"...), dialogue.Next
		case !s.put(key, s.args[2].bulk):
			return append(out, "-OOM there is no room for more values\r\n"...), dialogue.Next
		}
		return append(out, ok...), dialogue.Next
	case is(name, "PING"):
		switch args {
		case 1:
			return append(out, "+PONG\r\n"...), dialogue.Next
		case 2:
			return append(out, s.args[1].bulk...), dialogue.Next
		}
		return wrongArgs(out, "ping"), dialogue.Next
	case is(name, "QUIT"):
		return append(out, ok...), dialogue.HangUp
	case is(name, "NETTOLL.OVER"):
		return append(out, ok...), dialogue.Over
	}
	return unknown(out, name), dialogue.Next
}

func unknown(out, name []byte) []byte {
	const quoted = 32 // bytes
	return fmt.Appendf(out, "-ERR unknown command %q\r\n", name[:min(len(name), quoted)])
}

func wrongArgs(out []byte, name string) []byte {
	return append(append(append(out, "-ERR wrong number of arguments for '"...), name...), "' command\r\n"...)
}

// is reports whether a command has a name, which is given in capital letters, ignoring case.
//
//go:nosplit
func is(name []byte, want string) bool {
	if len(name) != len(want) {
		return false
	}
	for i, c := range name {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != want[i] {
			return false
		}
	}
	return true
}
