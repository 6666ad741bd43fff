package video

// A player plays one video. Its messages arrive in order, and each is due at the sender when its part of the video is:
// so the due time of a message is its position in the video. All times are in ns. Those of messages are since the
// sender's opening, the others since the receiver's.
//
// Playing begins when a buffer of video has arrived. From then on, the position moves with the clock, and cannot pass a
// message that has not arrived: there the video stands still until a buffer has arrived again.
type player struct {
	buffer int64

	known   bool  // a message has arrived
	started bool  // a picture was shown
	playing bool  // it does not stand still
	from    int64 // the position at which it waits for its buffer
	start   int64 // the clock's time minus the position, while it plays
	since   int64 // when it began to stand still
	newest  int64 // due time of the last message
	gap     int64 // and its distance from the previous one
	shown   int64 // time of the first picture
	stalls  int64
	stalled int64
}

// take handles a message, with its due time and its arrival time.
//
//go:nosplit
func (p *player) take(due, came int64) {
	if !p.known {
		p.known, p.from = true, due
	} else {
		p.gap = due - p.newest
	}
	p.newest = due
	if p.playing && came > p.start+due { // its part should have been shown before it arrived
		p.stand(p.start + due)
		p.from = due
	}
	if p.playing || due-p.from < p.buffer {
		return
	}
	if !p.started {
		p.started, p.shown = true, came
	} else {
		p.stalled += came - p.since
	}
	p.playing, p.start = true, came-p.from
}

// stand begins a stall.
//
//go:nosplit
func (p *player) stand(at int64) {
	p.playing, p.since = false, at
	p.stalls++
}

// finish ends the video at the close of a trial and adds its counters.
func (p *player) finish(closing int64, sum *playback) {
	sum.videos++
	if !p.started {
		sum.stalled += closing
		sum.watched += closing
		return
	}
	if next := p.start + p.newest + p.gap; p.playing && next < closing {
		p.stand(next)
	}
	if !p.playing {
		p.stalled += closing - p.since
	}
	sum.started++
	sum.delay += p.shown
	sum.stalls += p.stalls
	sum.stalled += p.stalled
	sum.watched += closing - p.shown
}
