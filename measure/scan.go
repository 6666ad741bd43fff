package measure

import (
	"bytes"
	"strconv"
)

// scanner reads trials in the form that [Writer] gives them: fields in its order, no white space, no escapes. Nearly
// every line of a file is such a trial, and decoding them with encoding/json would take most of the time of a report. A
// line in any other form is left to encoding/json.
type scanner struct {
	rest  []byte
	ok    bool
	names map[string]string // each name and cell once, because they occur in every trial
	last  []string          // metrics of the previous trial, in their order; usually the same as those of this one
	now   []string          // of this one
}

const trialHead = `{"type":"trial","v":`

// trial reads a line. If ok, the result is the same as that of encoding/json.
func (s *scanner) trial(line []byte) (t Trial, ok bool) {
	if s.names == nil {
		s.names = map[string]string{}
	}
	s.rest, s.ok = line, true
	t.Type = "trial"
	s.expect(trialHead)
	if t.V = s.integer(); t.V < 1 || t.V > Version {
		s.ok = false
	}
	s.expect(`,"gen":`)
	t.Generation = s.integer()
	s.expect(`,"block":`)
	t.Block = s.integer()
	s.expect(`,"cell":`)
	t.Cell = s.name()
	s.expect(`,"start":`)
	t.Start = s.number()
	s.expect(`,"dur":`)
	t.Duration = s.number()
	s.expect(`,"metrics":{`)
	t.Metrics = make(map[string]float64, len(s.last))
	s.now = s.now[:0]
	for more := !s.next('}'); s.ok && more; more = s.more('}') {
		name := s.expected(len(s.now))
		s.now = append(s.now, name)
		s.expect(":")
		t.Metrics[name] = s.number()
	}
	s.last, s.now = s.now, s.last
	if s.has(`,"pairs":{`) {
		t.PerPair = map[string][]float64{}
		for more := !s.next('}'); s.ok && more; more = s.more('}') {
			name := s.name()
			s.expect(":[")
			list := []float64{}
			for more := !s.next(']'); s.ok && more; more = s.more(']') {
				list = append(list, s.number())
			}
			t.PerPair[name] = list
		}
	}
	if s.has(`,"warn":[`) {
		t.Warnings = []string{}
		for more := !s.next(']'); s.ok && more; more = s.more(']') {
			t.Warnings = append(t.Warnings, s.name())
		}
	}
	if s.has(`,"limit":`) {
		t.Limit = s.name()
	}
	if s.has(`,"failed":`) {
		t.Failed = s.name()
	}
	s.expect("}")
	if len(s.rest) != 0 || t.Cell == "" {
		s.ok = false
	}
	return t, s.ok
}

// has consumes text if it comes next.
func (s *scanner) has(text string) bool {
	if len(s.rest) < len(text) || string(s.rest[:len(text)]) != text {
		return false
	}
	s.rest = s.rest[len(text):]
	return true
}

func (s *scanner) expect(text string) { s.ok = s.has(text) && s.ok }

// next consumes the byte c if it comes next.
func (s *scanner) next(c byte) bool {
	if len(s.rest) == 0 || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// more consumes a comma, and reports true, or the end of the list.
func (s *scanner) more(end byte) bool {
	if s.next(',') {
		return true
	}
	s.ok = s.next(end) && s.ok
	return false
}

// name reads a string of printable ASCII without escapes.
func (s *scanner) name() string {
	if !s.next('"') {
		s.ok = false
		return ""
	}
	n := bytes.IndexByte(s.rest, '"')
	if n < 0 {
		s.ok = false
		return ""
	}
	b := s.rest[:n]
	s.rest = s.rest[n+1:]
	if known, ok := s.names[string(b)]; ok {
		return known
	}
	for _, c := range b {
		if c < ' ' || c >= 0x7f || c == '\\' {
			s.ok = false
			return ""
		}
	}
	text := string(b)
	s.names[text] = text
	return text
}

// expected reads the name of a metric. It is fastest if the previous trial had the same name at this position.
func (s *scanner) expected(at int) string {
	if at < len(s.last) {
		if n := len(s.last[at]); len(s.rest) > n+1 && s.rest[0] == '"' && s.rest[n+1] == '"' &&
			string(s.rest[1:n+1]) == s.last[at] {
			s.rest = s.rest[n+2:]
			return s.last[at]
		}
	}
	return s.name()
}

// digits returns the number of digits from position i.
func (s *scanner) digits(i int) int {
	n := 0
	for i+n < len(s.rest) && s.rest[i+n] >= '0' && s.rest[i+n] <= '9' {
		n++
	}
	return n
}

// whole returns the length of the integer that comes next, by the grammar of JSON (RFC 8259, section 6); 0 if there is
// none.
func (s *scanner) whole() int {
	i := 0
	if len(s.rest) > 0 && s.rest[0] == '-' {
		i = 1
	}
	n := s.digits(i)
	if n == 0 || n > 1 && s.rest[i] == '0' {
		return 0
	}
	return i + n
}

func (s *scanner) integer() int {
	n := s.whole()
	x, err := strconv.Atoi(string(s.rest[:n]))
	s.rest = s.rest[n:]
	s.ok = s.ok && err == nil
	return x
}

func (s *scanner) number() float64 {
	if x, n := exact(s.rest); n > 0 {
		s.rest = s.rest[n:]
		return x
	}
	i := s.whole()
	if i == 0 {
		s.ok = false
		return 0
	}
	if i < len(s.rest) && s.rest[i] == '.' {
		n := s.digits(i + 1)
		s.ok = s.ok && n > 0
		i += 1 + n
	}
	if i < len(s.rest) && (s.rest[i] == 'e' || s.rest[i] == 'E') {
		i++
		if i < len(s.rest) && (s.rest[i] == '+' || s.rest[i] == '-') {
			i++
		}
		n := s.digits(i)
		s.ok = s.ok && n > 0
		i += n
	}
	x, err := strconv.ParseFloat(string(s.rest[:i]), 64)
	s.rest = s.rest[i:]
	s.ok = s.ok && err == nil
	return x
}

// exact reads a number without sign and exponent, with at most 15 digits and one of them before the point, and returns
// its length. It returns 0 for any other number. The digits and the power of ten are exact as floating-point numbers,
// so their quotient is the nearest one to the number (W. D. Clinger, How to read floating point numbers accurately,
// PLDI 1990, section 3).
func exact(b []byte) (x float64, length int) {
	const most = 16 // characters, with the point
	powers := [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}
	mantissa, point := uint64(0), 0
	for i, c := range b {
		switch {
		case c >= '0' && c <= '9' && i < most:
			mantissa = 10*mantissa + uint64(c-'0')
		case c == '.' && point == 0 && i > 0:
			point = i
		case c == '.' || c >= '0' && c <= '9' || c == 'e' || c == 'E':
			return 0, 0
		case i == 0 || point == i-1 && point > 0 || i > most-1 && point == 0:
			return 0, 0
		case b[0] == '0' && i > 1 && point != 1:
			return 0, 0
		case point == 0:
			return float64(mantissa), i
		default:
			return float64(mantissa) / powers[i-1-point], i
		}
	}
	return 0, 0
}
