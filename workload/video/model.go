package video

import (
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// meanRate is the mean rate of a video, in bit/s: 3 GB an hour (paper 004, section V.B.6).
const meanRate = 3e9 * 8 / 3600

// The distributions of Abhari and Soraya are in a paper that was not available. These numbers are derived from other
// figures of the same years: the lengths and sizes of 130,000 videos of YouTube are log-normal ("Characterizing
// Internet Video for Large-scale Active Measurements", arXiv:1408.5777, abstract), and so is their quotient, a video's
// rate.
const (
	// meanLength is the mean length of 2.5 million videos of YouTube (Sysomos, "Inside YouTube Video Statistics",
	// February 2010: videos to which blogs of July to December 2009 linked).
	meanLength = 4*time.Minute + 12*time.Second

	// lengthSpread is the standard deviation of the logarithm of a length. Among 1300 random videos of a day of
	// YouTube, the most frequent length was below a minute, and the mean 157 s (lathrios.com, "Runtimes for a sample of
	// 2,600 YouTube videos"). For a log-normal distribution, ln(mean/mode) is 1.5 times the square of the spread. With
	// a mode of 30 s, the middle of that minute, the spread is √(ln(157/30)/1.5).
	lengthSpread = 1.05

	// rateSpread is the standard deviation of the logarithm of a video's rate, its size divided by its length. In May
	// 2010 one film had 314, 590, 658, 910, 2129 and 3628 kbit/s in the six formats offered to a browser
	// (adterrasperaspera.com, "Approximate YouTube bitrates", Avatar trailer, video and audio). If all are equally
	// frequent, the spread of their logarithms is 0.82.
	rateSpread = 0.82
)

// A Video is a drawn video.
type Video struct {
	Length time.Duration
	Rate   float64 // bit/s
}

// Size returns its size in bytes.
func (v Video) Size() float64 { return v.Length.Seconds() * v.Rate / 8 }

// lengths returns the distribution of lengths, in s.
func lengths() distuv.LogNormal {
	return distuv.LogNormal{Mu: math.Log(meanLength.Seconds()) - lengthSpread*lengthSpread/2, Sigma: lengthSpread}
}

// rates returns the distribution of rates, in bit/s.
func rates() distuv.LogNormal {
	return distuv.LogNormal{Mu: math.Log(meanRate) - rateSpread*rateSpread/2, Sigma: rateSpread}
}

// Draw draws n videos that play at the same time, those of a round: the same for a seed and a round. It draws one from
// each of n equal shares of a distribution, so that even a few videos have its spread. Rates are scaled to the wanted
// mean.
func Draw(seed, round uint64, n int) []Video {
	random := rand.New(rand.NewPCG(seed, round))
	quantiles := func() []float64 {
		list := make([]float64, n)
		for i, share := range random.Perm(n) {
			list[i] = (float64(share) + random.Float64()) / float64(n)
		}
		return list
	}
	list, sum := make([]Video, n), 0.0
	for i, p := range quantiles() {
		list[i].Length = time.Duration(lengths().Quantile(p) * float64(time.Second))
	}
	for i, p := range quantiles() {
		list[i].Rate = rates().Quantile(p)
		sum += list[i].Rate
	}
	for i := range list {
		list[i].Rate *= meanRate * float64(n) / sum
	}
	return list
}
