package video

// A player plays one video. Its messages come in order, and each is due at the sender when its part of the video is: so
// when a message is due says where in the video it belongs. All times are in ns, those of messages since the sender's
// opening, the others since the receiver's.
//
// Playing begins when a buffer of video has come. From then on the position moves with the clock, and cannot pass a
// message that has not come: there the video stands still until a buffer has come again.
type player struct {
	buffer int64

	known   bool  // a message has come
	started bool  // a picture was shown
	playing bool  // it does not stand still
	from    int64 // where in the video it waits for its buffer
	start   int64 // the clock's time less the position, while it plays
	since   int64 // since when it stands still
	newest  int64 // when the last message was due
	gap     int64 // and how long after the one before
	shown   int64 // when the first picture was
	stalls  int64
	stalled int64
}

// take takes the message in that was due at a time and has come at another.
//
//go:nosplit
func (p *player) take(due, came int64) {
	if !p.known {
		p.known, p.from = true, due
	} else {
		p.gap = due - p.newest
	}
	p.newest = due
	if p.playing && came > p.start+due { // its part was to be shown before it came
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

// finish ends the video at the close of a trial and adds what became of it.
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
