package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/control"
)

func TestBarFitsTheTerminal(t *testing.T) {
	at := control.Progress{
		Phase: "measure", Generation: 3, Block: 12, Measured: 18 * time.Second,
		Budget: 40 * time.Second, Goals: 5, Closed: 2, Expected: 1,
	}
	for _, c := range []struct {
		width int
		want  string
	}{
		{120, "[==========              ]  45 %, at most 22s left, 2 of 5 done, 1 more expected, generation 3, block 12"},
		{85, "[==========              ]  45 %, at most 22s left, 2 of 5 done, 1 more expected"},
		{75, "[==========              ]  45 %, at most 22s left, 2 of 5 done"},
		{60, "[==========              ]  45 %, at most 22s left"},
		{40, " 45 %, at most 22s left"},
		{20, " 45 %"},
		{3, " 45"},
		{0, ""},
	} {
		if got := bar(at, 0.45, "22s", c.width); got != c.want {
			t.Errorf("%d columns:\ngot  %q\nwant %q", c.width, got, c.want)
		}
	}
	at.Phase = "build"
	if got, want := bar(at, 1, "0s", 79),
		"[========================] 100 %, building generation 3, 2 of 5 done"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for width := range 200 {
		if got := bar(at, 0.45, "22s", width); len(got) > width {
			t.Errorf("%d columns: %q has %d", width, got, len(got))
		}
	}
}

// The same run, on a terminal and in a file.
func TestProgress(t *testing.T) {
	run := func(terminal bool) string {
		var out strings.Builder
		now := time.Unix(0, 0)
		p := &progress{w: &out, terminal: terminal, now: func() time.Time { return now }, width: func() int { return 60 }}
		p.begin(4, 2, "up to 40s")
		p.observe(control.Progress{Phase: "build", Generation: 1, Budget: 40 * time.Second, Goals: 2})
		p.log("generation 1: 2 labs in 300ms")
		for i := range 5 {
			now = now.Add(5 * time.Second)
			p.observe(control.Progress{
				Phase: "measure", Generation: 1, Block: i + 1, Measured: time.Duration(i+1) * 4 * time.Second,
				Budget: 40 * time.Second, Goals: 2,
			})
			p.observe(control.Progress{Phase: "measure", Generation: 1, Block: i + 1}) // too soon
		}
		now = now.Add(5 * time.Second)
		p.observe(control.Progress{
			Phase: "measure", Generation: 1, Block: 6, Measured: 41 * time.Second, Budget: 40 * time.Second,
			Goals: 2, Closed: 1,
		})
		p.done()
		p.done()
		return out.String()
	}
	const erase = "\r\x1b[K"
	for _, c := range []struct {
		name     string
		terminal bool
		want     []string
	}{
		{"terminal", true, []string{
			"measuring 4 cells in 2 labs for up to 40s\n" +
				erase + "[                        ]   0 %, building generation 1" +
				erase + "generation 1: 2 labs in 300ms\n" +
				erase + "[                        ]   0 %, building generation 1" +
				erase + "[==                      ]  10 %, at most 45s left" +
				erase + "[====                    ]  20 %, at most 40s left" +
				erase + "[=======                 ]  30 %, at most 35s left" +
				erase + "[=========               ]  40 %, at most 30s left" +
				erase + "[============            ]  50 %, at most 25s left" +
				erase + "[========================] 100 %, 1 of 2 done" + erase,
		}},
		{"file", false, []string{
			"measuring 4 cells in 2 labs for up to 40s\n" +
				"generation 1: 2 labs in 300ms\n" +
				"generation 1, block 2: 8s of 40s measured, at most 40s left, 0 of 2 done\n" +
				"generation 1, block 4: 16s of 40s measured, at most 30s left, 0 of 2 done\n" +
				"generation 1, block 6: 41s of 40s measured, 1 of 2 done\n",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(strings.Join(c.want, ""), run(c.terminal)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The line of doctor during its tries.
func TestTried(t *testing.T) {
	for _, c := range []struct {
		terminal bool
		under    []string
		want     string
	}{
		{false, []string{"network bridge (one host)"}, "tried 3 of 9: now network bridge (one host)\n"},
		{false, []string{"a", "b", "c", "d", "e"}, "tried 3 of 9: now a, b, c, 2 more\n"},
		{true, []string{"network bridge (one host)"}, "\r\x1b[Ktried 3 of 9: now network bri\r\x1b[K"},
		{true, nil, "\r\x1b[Ktried 3 of 9\r\x1b[K"},
	} {
		var out strings.Builder
		p := &progress{w: &out, terminal: c.terminal, width: func() int { return 30 }}
		p.tried(3, 9, c.under)
		p.done()
		if got := out.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
