package dns

import (
	"bytes"
	"testing"

	"github.com/nettoll/nettoll/traffic/dialogue"
)

// A stream's queries are answered when they are complete, one after another. Data that is not a query ends the stream,
// and the marker ends the trial.
func TestStream(t *testing.T) {
	a, z := anAsker(t, typeAAAA, 64, 0)
	f := &framed{a, make([]byte, frame+a.size)}
	s := &answerer{zone: z, out: make([]byte, messageMax)}
	putMarker(&s.marker, 0)
	two := append(bytes.Clone(f.Request(0)), f.Request(1)...)
	for n := range frame + a.size {
		if taken, reply, then := s.Serve(two[:n], nil); then != dialogue.Wait || len(reply) > 0 || n >= frame &&
			taken != frame+a.size {
			t.Errorf("%d bytes of a query: %d taken, %x, %d", n, taken, reply, then)
		}
	}
	taken, reply, then := s.Serve(two, nil)
	if taken != frame+a.size || then != dialogue.Next || len(reply) != frame+a.most {
		t.Fatalf("%d taken, %d bytes, %d", taken, len(reply), then)
	}
	for n := 1; n < len(reply); n++ {
		if size, v := f.Answer(0, reply[:n]); v != dialogue.Partial {
			t.Errorf("%d bytes of an answer: %d, %d", n, size, v)
		}
	}
	more := append(bytes.Clone(reply), 1, 2, 3)
	if size, v := f.Answer(0, more); v != dialogue.Good || size != len(reply) {
		t.Errorf("an answer: %d, %d", size, v)
	}
	if _, v := f.Answer(1, reply); v != dialogue.Alien {
		t.Errorf("the answer to another query: %d", v)
	}
	wrong := bytes.Clone(reply)
	wrong[frame+3] |= nxDomain
	if size, v := f.Answer(0, wrong); v != dialogue.Bad || size != len(reply) ||
		explain(0, wrong) != "the server says NameError" {
		t.Errorf("a denial: %d, %d, %q", size, v, explain(0, wrong))
	}
	long := append([]byte{0xff, 0xff}, reply[frame:]...)
	// data after an answer is skipped, up to its stated length
	if size, v := f.Answer(0, long); size != frame+0xffff || v != dialogue.Good {
		t.Errorf("an answer with more behind it: %d, %d", size, v)
	}
	if _, _, then := s.Serve(reply, nil); then != dialogue.HangUp {
		t.Errorf("an answer is answered: %d", then)
	}
	bye, size := farewell()
	if taken, reply, then := s.Serve(bye, nil); taken != len(bye) || then != dialogue.Over || len(reply) != size {
		t.Errorf("the end: %d taken, %d bytes, %d", taken, len(reply), then)
	}
}
