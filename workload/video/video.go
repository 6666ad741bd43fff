package video

import (
	"fmt"
	"slices"
	"time"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/flows"
	"github.com/nettoll/nettoll/workload"
)

// Workload is the workload video.
type Workload struct{}

var _ workload.Workload = Workload{}

const (
	payload    = 1370 // bytes of a message (paper 004, section V.B.6)
	mostVideos = 100
)

// Describe implements [workload.Workload].
func (Workload) Describe() workload.Description {
	return workload.Description{
		Name:    "video",
		Summary: "videos that play at once, each a TCP connection in real time: start-up delay, stalls, rate",
		Reproduces: "the video streaming workload of SeCoNetBench (ten videos, messages of 1370 bytes, 3 GB an hour each " +
			"on average). Its lengths and sizes are from Abhari and Soraya (2010), a paper " +
			"that was not at hand: here lengths are log-normal with a mean of 252 s, as 2.5 million videos of YouTube had in " +
			"the second half of 2009 (Sysomos), and a spread (of the logarithm) of 1.05; rates are log-normal with a spread " +
			"of " +
			"0.82, derived from the formats that YouTube had in May 2010; a size is length times rate " +
			"(workload/video/model.go has the sources). TCP_NODELAY is always on: otherwise a message that is less than a " +
			"segment waits until the one before is acknowledged, which the paper does not speak of",
		Primary: func(part.Params) string { return "oneway_latency_p50" },
		Trial:   func(part.Params) time.Duration { return 2 * time.Second },
		Why: "videos play in real time: the slowest of ten has 100 messages a second, and a buffer of 100 ms and what " +
			"follows it are seen ten times over. " +
			"What happens once in minutes is seen only over many trials, and a video that ends hardly ever",
		Warm:  warm,
		Spins: func(part.Params) bool { return false },
		Params: slices.Concat(part.List{
			{
				Name: "videos", Default: "10", Summary: "concurrent videos, each on its own TCP connection, 1 to 100",
				Check: part.CountBetween(1, mostVideos),
			},
			{
				Name: "buffer", Default: "100ms", Quiet: true, Check: part.DurationBetween(time.Millisecond, time.Minute),
				Summary: "video that must be buffered before a player starts, and after a stall before it continues. Real " +
					"players hold seconds; with 100ms any longer delay of the network is a stall, and a trial can be short",
			},
		}, workload.StreamParams()),
		Declares: declared(),
		Metrics:  metricNames(),
	}
}

// warm is the share of a trial before its window opens. Players are observed from the opening on.
const warm = 0.1

// Open implements [workload.Workload].
func (Workload) Open(s workload.Spec) (traffic.Endpoint, error) {
	videos := s.Params.Count("videos")
	options := s.SocketOptions()
	options.NoDelay = true // a message that waits for the previous acknowledgement would measure a timer (RFC 896)
	// All connections use one port of the sink.
	place := flows.Place{Local: s.Local, Remote: s.Remote, LocalPorts: 1, RemotePorts: 1, Options: options}
	end := &flows.End{
		Longest: payload, OwnClock: s.OwnClock, StallEvery: int64(s.Stall.Every),
		StallFor: int64(s.Stall.For),
	}
	switch s.Side {
	case workload.Source:
		return openSource(s.Seed, videos, place, end)
	case workload.Sink:
		return openSink(int64(s.Params.Duration("buffer")), videos, place, end)
	}
	return nil, fmt.Errorf("open video: side %q (valid: source or sink)", s.Side)
}

// rounds is the number of videos for each one that plays at a time: as many may follow one another in a trial, which is
// more than two hours.
const rounds = 32

// source sends videos.
type source struct {
	*flows.End
	draws  [rounds][]Video
	trials uint64
	rates  [rounds]float64 // rates of the messages of one flow
	times  [rounds]time.Duration
}

func openSource(seed uint64, videos int, place flows.Place, end *flows.End) (traffic.Endpoint, error) {
	s := &source{End: end}
	for i := range s.draws {
		s.draws[i] = Draw(seed, uint64(i), videos)
	}
	for i := range videos {
		schedule, err := traffic.NewSchedule(traffic.ScheduleSpec{
			Rate: s.draws[0][i].Rate / 8 / payload, Arrivals: "constant", Sizes: "constant", Size: payload, Least: payload,
			Most: payload,
		})
		if err != nil {
			return nil, err
		}
		end.Out = append(end.Out, flows.Lane{Schedule: schedule, First: i, Count: 1})
	}
	var err error
	if end.Streams, err = flows.Call(place, videos); err != nil {
		return nil, fmt.Errorf("no video can start: %w", err)
	}
	if err := end.Init(); err != nil { // Init has closed them after an error
		return nil, err
	}
	return s, nil
}

// Prepare implements [traffic.Endpoint]. A trial begins with the videos of its round, followed by those of the next
// rounds.
func (s *source) Prepare(trial uint64) {
	for i := range s.Out {
		for k := range rounds {
			v := s.draws[(s.trials+uint64(k))%rounds][i]
			s.rates[k], s.times[k] = v.Rate/8/payload, v.Length
		}
		s.Out[i].Schedule.Stretch(s.rates[:], s.times[:])
	}
	s.trials++
	s.End.Prepare(trial)
}

// sink plays the videos.
type sink struct {
	*flows.End
	buffer  int64
	players []player
	closing int64 // ns since the opening: messages that arrive later are not shown
	played  playback
}

func openSink(buffer int64, videos int, place flows.Place, end *flows.End) (_ traffic.Endpoint, err error) {
	s := &sink{End: end, buffer: buffer, players: make([]player, videos)}
	end.Hears, end.Hearer = true, s
	if end.Streams, err = flows.Listen(place, videos); err != nil {
		return nil, err
	}
	if err := end.Init(); err != nil {
		return nil, err
	}
	return s, nil
}

// Heard implements [flows.Hearer]. It passes a message to the player of its flow.
//
//go:nosplit
func (s *sink) Heard(m *flows.Message) {
	if m.Came <= s.closing {
		s.players[m.Flow].take(m.Due, m.Came)
	}
}

// Prepare implements [traffic.Endpoint].
func (s *sink) Prepare(trial uint64) {
	for i := range s.players {
		s.players[i] = player{buffer: s.buffer}
	}
	s.played = playback{}
	s.End.Prepare(trial)
}

// Run implements [traffic.Endpoint].
func (s *sink) Run(trial uint64, w traffic.Window) {
	s.closing = w.Close - w.Open
	s.End.Run(trial, w)
	for i := range s.players {
		s.players[i].finish(s.closing, &s.played)
	}
	if s.OwnClock { // the sender's opening was another one
		s.played.delay = 0
	}
}

// Collect implements [traffic.Collector].
func (s *sink) Collect() {
	s.End.Collect()
	s.played.put(s.Sample())
}

// Carried implements [workload.Carrier].
func (Workload) Carried(t workload.Trial, i int) (there, back int64) { return t.CarriedMessages(i) }
