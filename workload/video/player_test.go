package video

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A player has a buffer of 100; its messages are due every 50, in a trial that closes at 1000.
func TestPlayer(t *testing.T) {
	type message struct{ due, came int64 }
	late := func(by int64) (list []message) { // the messages of a trial, each this much later than due
		for due := int64(0); due+by <= 1000; due += 50 {
			list = append(list, message{due, due + by})
		}
		return list
	}
	for _, c := range []struct {
		name     string
		messages []message
		want     playback
	}{
		{"as it should be", late(0), playback{videos: 1, started: 1, delay: 100, watched: 900}},
		{"a path of 30", late(30), playback{videos: 1, started: 1, delay: 130, watched: 870}},
		{"nothing came", nil, playback{videos: 1, stalled: 1000, watched: 1000}},
		{"less than a buffer came", []message{{0, 10}, {50, 60}}, playback{videos: 1, stalled: 1000, watched: 1000}},
		// The first picture is shown at 100; from there the message due at 200 is needed at 300.
		{
			"a message just in time",
			append(late(0)[:4], []message{{200, 300}, {250, 300}, {300, 300}, {350, 350}, {400, 400}, {450, 1000}}...),
			// The message due at 450 is needed at 550: the video stands still from then on.
			playback{videos: 1, started: 1, delay: 100, watched: 900, stalls: 1, stalled: 450},
		},
		{
			// The message is 1 late: the video stands still at 200 from 300 on, and the buffer is full again when the
			// message due at 300 arrives.
			"a message one too late",
			append(late(0)[:4], append([]message{{200, 301}, {250, 301}, {300, 310}}, late(0)[7:]...)...),
			playback{videos: 1, started: 1, delay: 100, watched: 900, stalls: 1, stalled: 10},
		},
		{
			// After the stall, the position is 10 further behind: a message 110 later than due is in time, and one 111
			// later is not.
			"later, after a stall", append(late(0)[:4], []message{
				{200, 310},
				{250, 310},
				{300, 310},
				{350, 460},
				{400, 511},
				{450, 511},
				{500, 511},
				{550, 560},
				{600, 600},
				{650, 650},
				{700, 700},
				{750, 750},
				{800, 800},
				{850, 850},
				{900, 900},
			}...),
			playback{videos: 1, started: 1, delay: 100, watched: 900, stalls: 2, stalled: 10 + 1},
		},
		{
			"half as fast as it should come", func() (list []message) {
				for due := int64(0); due <= 500; due += 50 {
					list = append(list, message{due, 2 * due})
				}
				return list
			}(),
			// First picture at 200. The message due at 250 is needed at 450 and arrives at 500; the buffer, up to 350,
			// is full at 700. The message due at 500 is needed at 950 and arrives at 1000.
			playback{videos: 1, started: 1, delay: 200, watched: 800, stalls: 2, stalled: 250 + 50},
		},
	} {
		p := player{buffer: 100}
		for _, m := range c.messages {
			p.take(m.due, m.came)
		}
		var got playback
		p.finish(1000, &got)
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(playback{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// Playing depends only on the receiver's clock: messages from a sender with another opening play as well.
func TestPlayerOfAnotherClock(t *testing.T) {
	p := player{buffer: 100}
	for due := int64(5000); due <= 5800; due += 50 {
		p.take(due, due-4900)
	}
	var got playback
	p.finish(950, &got)
	if want := (playback{videos: 1, started: 1, delay: 200, watched: 750}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
