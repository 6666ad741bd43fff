package ditg

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/flows"
	"github.com/nettoll/nettoll/workload"
)

// Output of ITGDec 2.8.1 for two flows of Quake3.
const listed = `Flow>0002 Seq>      1 Src>                                     127.0.0.1/51425 Dest>                                     127.0.0.1/10002 txTime>19:34:4.205884 rxTime>19:34:4.205926 Size>   66
Flow>0001 Seq>      1 Src>                                     127.0.0.1/45739 Dest>                                     127.0.0.1/10001 txTime>19:34:4.925399 rxTime>19:34:4.925457 Size>   61
Flow>0002 Seq>      2 Src>                                     127.0.0.1/51425 Dest>                                     127.0.0.1/10002 txTime>19:34:5.674361 rxTime>19:34:5.674428 Size>   62
`

func TestReadLines(t *testing.T) {
	first, rest, _ := strings.Cut(listed, "\n")
	for _, tt := range []struct {
		name, text string
		want       traffic.Sample
		mean       float64
		err        string
	}{
		{"two flows", listed, traffic.Sample{
			Received: 3, Total: 3, Bytes: 189, Counts: traffic.Counts{flows.CountJitter: 25000, flows.CountFlows: 2},
		}, 55666, ""},
		{"nothing", "", traffic.Sample{}, 0, ""},
		{"one twice", listed + first + "\n", traffic.Sample{
			Received: 3, Total: 4, Bytes: 189, Counts: traffic.Counts{
				flows.CountJitter: 25000, flows.CountFlows: 2, traffic.CountRepeated: 1,
			},
		}, 55666, ""},
		{
			"the later one first", strings.NewReplacer("Seq>      1 Src>                                     127.0.0.1/5",
				"Seq>      9 Src>                                     127.0.0.1/5").Replace(listed),
			traffic.Sample{Received: 3, Total: 3, Bytes: 189, Counts: traffic.Counts{
				flows.CountJitter: 25000, flows.CountFlows: 2, traffic.CountReordered: 1,
			}},
			55666, "",
		},
		{"over midnight", strings.NewReplacer("19:34:4.205884", "23:59:59.999999", "19:34:4.205926",
			"0:0:0.000041").Replace(first), traffic.Sample{
			Received: 1, Total: 1, Bytes: 66, Counts: traffic.Counts{flows.CountFlows: 1},
		}, 42000, ""},
		{"IPv6", strings.ReplaceAll(first, "127.0.0.1/", "fd00:7::1/"), traffic.Sample{
			Received: 1, Total: 1, Bytes: 66, Counts: traffic.Counts{flows.CountFlows: 1},
		}, 42000, ""},
		{
			"before it was sent", strings.Replace(first, "4.205926", "4.205826", 1),
			traffic.Sample{},
			0,
			"58µs before it was sent",
		},
		{
			"no time", strings.Replace(first, "19:34:4.205926", "29:34:4.205926", 1),
			traffic.Sample{},
			0,
			`"29:34:4.205926" is not a time of day`,
		},
		{"no fraction", strings.Replace(first, "4.205926", "4", 1), traffic.Sample{}, 0, "is not a time of day"},
		{"no size", strings.Replace(rest, "Size>   61", "Size>", 1), traffic.Sample{}, 0, "logged \"Flow>0001"},
		{"another program", "#!/bin/sh", traffic.Sample{}, 0, `logged "#!/bin/sh"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := traffic.NewRecorder()
			got, err := readLines(strings.NewReader(tt.text), r)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			h := traffic.NewHistogram()
			if err := r.AddTo(h); err != nil || r.Count != got.Received {
				t.Errorf("%d one-way times of %d, %v", r.Count, got.Received, err)
			}
			if m := h.Mean(); m < 0.999*tt.mean || m > 1.001*tt.mean {
				t.Errorf("mean one-way time of %g ns, want %g", m, tt.mean)
			}
		})
	}
}

// The figures read from any output add up.
func FuzzReadLines(f *testing.F) {
	f.Add(listed)
	r := traffic.NewRecorder()
	f.Fuzz(func(t *testing.T, text string) {
		r.Reset()
		s, err := readLines(strings.NewReader(text), r)
		if err != nil {
			return
		}
		if n := s.Counts; s.Received+n[traffic.CountRepeated] != s.Total || n[flows.CountFlows] > s.Received ||
			n[traffic.CountReordered] > s.Received || n[flows.CountJitter] < 0 || s.Bytes < 0 || r.Count != s.Received {
			t.Errorf("%q: %+v, %d one-way times", text, s, r.Count)
		}
	})
}

func TestMessages(t *testing.T) {
	burst := workload.Description{
		Name: "burst", Params: part.List{
			{Name: "rate", Default: "500kbit/s"},
			{Name: "on", Default: "1s"},
			{Name: "off", Default: "1s"},
			{Name: "payload", Default: "653"},
			{Name: "flows", Default: "1"},
		},
	}
	quake := workload.Description{
		Name: "quake3", Params: part.List{{Name: "players", Default: "4"}, {Name: "dscp", Default: "0"}},
	}
	for _, tt := range []struct {
		w           workload.Description
		given, want string
		options     []string
	}{
		{burst, "", "", []string{"-B", "C", "1000", "C", "1000", "-C", "95.712098"}},
		{burst, "on=1500ms,off=2ms,rate=1Mbit/s,payload=125", "", []string{"-B", "C", "1500", "C", "2", "-C", "1000.000000"}},
		{burst, "off=0s", "", []string{"-C", "95.712098"}},
		{burst, "flows=2", `with flows "2"`, nil},
		{burst, "rate=1Gbit/s,payload=100", "1250000 a second (valid: up to 100000)", nil},
		{quake, "", "with 4 players: ITGSend 2.8.1 with several flows often does not end (valid: players 1)", nil},
		{quake, "players=1", "", nil},
		{quake, "players=1,dscp=10", `with dscp "10"`, nil},
	} {
		p := part.Params{}
		for _, one := range tt.w.Params {
			p[one.Name] = one.Default
		}
		for one := range strings.SplitSeq(tt.given, ",") {
			if name, value, ok := strings.Cut(one, "="); ok {
				p[name] = value
			}
		}
		err := (Driver{}).Serves(tt.w, p)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s(%s): %v, want %q", tt.w.Name, tt.given, err, tt.want)
		}
		if tt.options != nil && !slices.Equal(bursts(p), tt.options) {
			t.Errorf("%s(%s): %q, want %q", tt.w.Name, tt.given, bursts(p), tt.options)
		}
	}
}
