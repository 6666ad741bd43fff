package dns

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/nettoll/nettoll/workload"
)

// ask returns the server's answer to a query, as another implementation understands it.
func ask(t *testing.T, z *zone, q []byte, stream bool) dnsmessage.Message {
	t.Helper()
	out := make([]byte, messageMax)
	n := z.answer(out, q, stream)
	if n == 0 {
		t.Fatalf("no answer to %x", q)
	}
	var m dnsmessage.Message
	if err := m.Unpack(out[:n]); err != nil {
		t.Fatalf("answer %x: %v", out[:n], err)
	}
	if !m.Response || n >= 2 && m.ID != get16(q, 0) {
		t.Errorf("header of the answer: %+v", m.Header)
	}
	return m
}

// Answers of the server to different queries, over UDP and TCP.
func TestAnswers(t *testing.T) {
	z := &zone{names: 100, addresses: 2}
	for _, tt := range []struct {
		name   string
		kind   uint16
		change func(q []byte) []byte
		want   string
	}{
		{"svc-0017.default.svc.cluster.local.", typeA, nil, "Success aa rd: 10.96.0.17 10.96.64.17"},
		{"svc-0099.default.svc.cluster.local.", typeAAAA, nil, "Success aa rd: fd00:10:96::63 fd00:10:96::1:63"},
		{"SVC-0017.Default.svc.CLUSTER.local.", typeA, nil, "Success aa rd: 10.96.0.17 10.96.64.17"},
		{"svc-0017.default.svc.cluster.local.", typeAny, nil, "Success aa rd: 10.96.0.17 10.96.64.17"},
		{"svc-0017.default.svc.cluster.local.", 16, nil, "Success aa rd:"},
		{"default.svc.cluster.local.", typeA, nil, "Success aa rd:"},
		{"svc.cluster.local.", typeA, nil, "Success aa rd:"},
		{"cluster.local.", typeA, nil, "Success aa rd:"},
		{"svc-0100.default.svc.cluster.local.", typeA, nil, "NameError aa rd:"},
		{"svc-00x7.default.svc.cluster.local.", typeA, nil, "NameError aa rd:"},
		{"svc-0017.other.svc.cluster.local.", typeA, nil, "NameError aa rd:"},
		{"a.svc-0017.default.svc.cluster.local.", typeA, nil, "NameError aa rd:"},
		{"ault.svc.cluster.local.", typeA, nil, "NameError aa rd:"},
		{"local.", typeA, nil, "Refused rd:"},
		{".", typeA, nil, "Refused rd:"},
		{"nettoll.invalid.", typeA, nil, "Refused rd:"},
		{"svc-0017.default.svc.cluster.local.", typeA, func(q []byte) []byte {
			q[2] = 0
			return q
		}, "Success aa: 10.96.0.17 10.96.64.17"},
		// class CH
		{"svc-0017.default.svc.cluster.local.", typeA, func(q []byte) []byte { q[len(q)-1] = 3; return q }, "Refused rd:"},
		// update
		{"svc-0017.default.svc.cluster.local.", typeA, func(q []byte) []byte {
			q[2] |= 0x28
			return q
		}, "NotImplemented rd:"},
		// two questions
		{"svc-0017.default.svc.cluster.local.", typeA, func(q []byte) []byte { q[5] = 2; return q }, "FormatError rd:"},
		// none
		{"svc-0017.default.svc.cluster.local.", typeA, func(q []byte) []byte { q[5] = 0; return q }, "FormatError rd:"},
		// more than that
		{"svc-0017.default.svc.cluster.local.", typeA, func(q []byte) []byte { return append(q, 0) }, "FormatError rd:"},
		// less
		{"svc-0017.default.svc.cluster.local.", typeA, func(q []byte) []byte { return q[:len(q)-1] }, "FormatError rd:"},
		{"svc-0017.default.svc.cluster.local.", typeA, func(q []byte) []byte {
			return q[:headerSize]
		}, "FormatError rd:"}, //
		// a record that is not there
		{"svc-0017.default.svc.cluster.local.", typeA, func(q []byte) []byte { q[11] = 1; return q }, "FormatError rd:"},
		// a pointer
		{"svc-0017.default.svc.cluster.local.", typeA, func(q []byte) []byte {
			q[headerSize] = 0xc0
			return q
		}, "FormatError rd:"},
		// a label of 64
		{"svc-0017.default.svc.cluster.local.", typeA, func(q []byte) []byte {
			q[headerSize] = 0x40
			return q
		}, "FormatError rd:"},
		// 257 bytes
		{strings.Repeat("a123456789.", 22) + "cluster.local.", typeA, func(q []byte) []byte { return q }, "FormatError rd:"},
	} {
		t.Run(fmt.Sprintf("%.40s type %d", tt.name, tt.kind), func(t *testing.T) {
			q := rawQuery(tt.name, tt.kind)
			q[0], q[1] = 0xab, 0xcd
			if tt.change != nil {
				q = tt.change(q)
			}
			for _, stream := range []bool{false, true} {
				if got := shown(ask(t, z, q, stream)); got != tt.want {
					t.Errorf("stream %t: %q, want %q", stream, got, tt.want)
				}
			}
		})
	}
}

// rawQuery writes a query without checking its name.
func rawQuery(name string, kind uint16) []byte {
	q := []byte{2: flagRecursion >> 8, 5: 1, headerSize - 1: 0}
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if label != "" {
			q = append(append(q, byte(len(label))), label...)
		}
	}
	return append(q, 0, byte(kind>>8), byte(kind), 0, classIN)
}

// shown returns an answer in words.
func shown(m dnsmessage.Message) string {
	s := strings.TrimPrefix(m.RCode.String(), "RCode")
	if m.Authoritative {
		s += " aa"
	}
	if m.Truncated {
		s += " tc"
	}
	if m.RecursionDesired {
		s += " rd"
	}
	s += ":"
	for _, a := range m.Answers {
		switch r := a.Body.(type) {
		case *dnsmessage.AResource:
			s += " " + netip.AddrFrom4(r.A).String()
		case *dnsmessage.AAAAResource:
			s += " " + netip.AddrFrom16(r.AAAA).String()
		}
	}
	return s
}

// An answer that does not fit is truncated completely, and says so. The client announces how much fits, and a stream
// has no limit.
func TestTruncation(t *testing.T) {
	z := &zone{names: 10000, addresses: 64} // 1076 bytes of A, 1844 of AAAA
	for _, tt := range []struct {
		kind      uint16
		announced int
		stream    bool
		want      int
	}{
		{typeA, 0, false, 0},
		{typeA, 512, false, 0},
		{typeA, 1232, false, 64},
		{typeAAAA, 1232, false, 0},
		{typeAAAA, 4096, false, 64},
		{typeAAAA, 65535, false, 64},
		{typeA, 1086, false, 0},
		{typeA, 1087, false, 64},
		{typeA, 100, false, 0},
		{typeAAAA, 0, true, 64},
	} {
		q, err := query(workload.Service(9999), tt.kind, tt.announced)
		if err != nil {
			t.Fatal(err)
		}
		m := ask(t, z, q, tt.stream)
		if len(m.Answers) != tt.want || m.Truncated != (tt.want == 0) {
			t.Errorf("%+v: %d records, truncated: %t", tt, len(m.Answers), m.Truncated)
		}
		opt := 0
		for _, a := range m.Additionals {
			if a.Header.Type == dnsmessage.TypeOPT && a.Header.Class == ednsLimit {
				opt++
			}
		}
		if (opt == 1) != (tt.announced > 0) || opt > 1 {
			t.Errorf("%+v: %d records OPT in the answer", tt, opt)
		}
	}
}

// Valid and invalid OPT records (RFC 6891, section 6).
func TestEDNS(t *testing.T) {
	z := &zone{names: 1, addresses: 1}
	plain, err := query(workload.Service(0), typeA, 1232)
	if err != nil {
		t.Fatal(err)
	}
	opt := plain[len(plain)-optSize:]
	for _, tt := range []struct {
		what   string
		change func(q []byte) []byte
		want   dnsmessage.RCode
		upper  uint32
	}{
		{"as it is", func(q []byte) []byte { return q }, 0, 0},
		{"two", func(q []byte) []byte { q[11] = 2; return append(q, opt...) }, formErr, 0},
		{"of a name", func(q []byte) []byte {
			q[11] = 1
			return append(append(q[:len(q)-optSize], 1, 'a'), opt...)
		}, formErr, 0},
		{"of a version that nobody has", func(q []byte) []byte { q[len(q)-optSize+6] = 1; return q }, 0, badVers >> 4},
		{"with an option", func(q []byte) []byte { q[len(q)-1] = 4; return append(q, 0, 10, 0, 0) }, 0, 0},
		{"with less than it says", func(q []byte) []byte { q[len(q)-1] = 5; return append(q, 0, 10, 0, 0) }, formErr, 0},
	} {
		m := ask(t, z, tt.change(append([]byte(nil), plain...)), false)
		if m.RCode != tt.want {
			t.Errorf("%s: %v", tt.what, m.RCode)
		}
		if tt.want == formErr {
			continue
		}
		if len(m.Additionals) != 1 || m.Additionals[0].Header.TTL>>24 != tt.upper {
			t.Errorf("%s: %+v", tt.what, m.Additionals)
		}
	}
}

// Answers are not answered, because two servers would otherwise talk for ever; nor is data without a header.
func TestSilent(t *testing.T) {
	z := &zone{names: 1, addresses: 1}
	out := make([]byte, messageMax)
	for _, q := range [][]byte{nil, {1}, make([]byte, headerSize-1), {0, 0, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0}} {
		if n := z.answer(out, q, false); n != 0 {
			t.Errorf("%x is answered: %x", q, out[:n])
		}
	}
}

// FuzzAnswer checks that every answer is a message for the sender of the query, within its allowed length, and that
// only existing names have addresses.
func FuzzAnswer(f *testing.F) {
	for _, size := range []int{0, 1232} {
		for _, kind := range []uint16{typeA, typeAAAA, typeAny} {
			q, err := query(workload.Service(17), kind, size)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(q)
		}
	}
	f.Add(rawQuery("svc-9999.default.svc.cluster.local", typeA))
	z := &zone{names: 100, addresses: 5}
	out := make([]byte, messageMax)
	f.Fuzz(func(t *testing.T, q []byte) {
		n := z.answer(out, q, false)
		if n == 0 {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(out[:n]); err != nil {
			if strings.Contains(err.Error(), "name") && len(m.Answers) == 0 {
				return // it refuses names that are legal: a dot in a label
			}
			t.Fatalf("%x: answer %x: %v", q, out[:n], err)
		}
		if !m.Response || m.ID != get16(q, 0) || n > ednsLimit || n > plainLimit && len(m.Additionals) == 0 {
			t.Errorf("%x: answer of %d bytes, %+v", q, n, m)
		}
		if len(m.Answers) > 0 {
			var i int
			if _, err := fmt.Sscanf(strings.ToLower(m.Questions[0].Name.String()), "svc-%04d.default.svc.cluster.local.",
				&i); err != nil || i >= z.names || len(m.Answers) != z.addresses {
				t.Errorf("%x: %d addresses of %q", q, len(m.Answers), m.Questions[0].Name)
			}
		}
	})
}
