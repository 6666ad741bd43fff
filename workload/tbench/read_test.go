package tbench

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/traffic"
)

// recorded returns the output of tbench 4.00 from a run over loopback.
func recorded(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRead(t *testing.T) {
	two, one := recorded(t, "two-clients-2s"), recorded(t, "one-client-5s")
	change := func(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }
	for _, tt := range []struct {
		name, text     string
		limit, clients int
		want           traffic.Sample
		err            string
	}{
		{"two clients", two, 2, 2, traffic.Sample{
			Window: 1e9, Span: 1e9, Bytes: 1403188062 + 1407297052 - 1284150000, Received: 257180 + 258086 - 2*115610,
			Sent: 257180 + 258086 - 2*115610, Total: 257180 + 258086,
			Foreign: traffic.Foreign{Max: 5.108e6},
		}, ""},
		{"its own warm-up", one, 5, 1, traffic.Sample{
			Window: 4e9, Span: 4e9, Bytes: 2424883007 - 338450000, Received: 508458 - 124770, Sent: 508458 - 124770,
			Total:   508458,
			Foreign: traffic.Foreign{Max: 59.346e6},
		}, ""},
		{"nothing", "", 2, 2, traffic.Sample{}, "did not print its throughput"},
		{"cut off", two[:len(two)/2], 2, 2, traffic.Sample{}, "did not print its throughput"},
		{"other clients", two, 2, 3, traffic.Sample{}, "reported 2 clients instead of 3"},
		{"another time", two, 3, 2, traffic.Sample{}, "second 1 to 2 instead of 1 to 3"},
		{"no report", change(two, "execute", "warmup"), 2, 2, traffic.Sample{}, "made no report"},
		{
			"a late report", change(two, "execute   1 sec", "execute   2 sec"), 2, 2,
			traffic.Sample{},
			"second 2 to 2 instead of 1 to 2",
		},
		{
			"a client is missing", change(two, "Client 0 did", "Client 0 does"), 2, 2,
			traffic.Sample{},
			"client 1 did in place of 0",
		},
		{
			"the last is missing", change(two, "Client 1 did", "Client 1 does"), 2, 1,
			traffic.Sample{},
			"had 2 clients in 2 processes, of which 2 ran, and said what 1 did",
		},
		{"one has ended", change(two, "   2    115610", "   1    115610"), 2, 2, traffic.Sample{}, "of which 1 ran"},
		{"it stands", change(two, "   2    115610", "   2    257633"), 2, 2, traffic.Sample{}, "nothing in between"},
		{"no number", change(two, "1284.15", "1.2.3"), 2, 2, traffic.Sample{}, `printed the invalid count "1.2.3"`},
		{"too large", change(two, "1403188062", "99999999999999999999"), 2, 2, traffic.Sample{}, "the invalid count"},
		{"no operations", change(two, " 0.", " x."), 2, 2, traffic.Sample{}, "printed no operation"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got traffic.Sample
			err := read(strings.NewReader(tt.text), tt.limit, tt.clients, &got)
			if tt.err != "" || err != nil {
				if err == nil || tt.err == "" || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzRead checks that any output gives possible figures or an error.
func FuzzRead(f *testing.F) {
	f.Add(recorded(f, "two-clients-2s"), 2, 2)
	f.Add(recorded(f, "one-client-5s"), 5, 1)
	f.Fuzz(func(t *testing.T, text string, limit, clients int) {
		limit, clients = 2+limit&63, 1+clients&63
		var s traffic.Sample
		if err := read(strings.NewReader(text), limit, clients, &s); err != nil {
			return
		}
		if s.Bytes < 0 || s.Received < 0 || s.Received > s.Total || s.Window <= 0 || s.Span < s.Window ||
			!(s.Foreign.Max >= 0) {
			t.Errorf("%+v", s)
		}
		reason(strings.NewReader(text))
	})
}

func TestReason(t *testing.T) {
	for text, want := range map[string]string{
		"releasing clients\nerror reading header\nChild failed with status 1\n": "error reading header",
		"releasing clients\n": "",
		"":                    "",
	} {
		if got := reason(strings.NewReader(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// The window, the second before it and tbench's own warm-up fit into the available time.
func TestLimit(t *testing.T) {
	for window, want := range map[int]int{1: 2, 2: 3, 3: 4, 4: 4, 5: 5, 9: 9, 10: 9, 59: 50} {
		if got := limit(window); got != want {
			t.Errorf("a window of %d s: -t %d, want %d", window, got, want)
		}
	}
}
