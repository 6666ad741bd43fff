package video

import (
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// meanRate is that of a video, in bit/s: 3 GB an hour (paper 004, section V.B.6).
const meanRate = 3e9 * 8 / 3600

// The distributions of Abhari and Soraya are in a paper that was not at hand. What is here is derived from other
// figures of the same years: lengths and sizes of 130,000 videos of YouTube are log-normal ("Characterizing Internet
// Video for Large-scale Active Measurements", arXiv:1408.5777, abstract), so that the quotient of the two, a video's
// rate, is as well.
const (
	// meanLength is what 2.5 million videos of YouTube lasted on average (Sysomos, "Inside YouTube Video Statistics",
	// February 2010: those that blogs of July to December 2009 linked to).
	meanLength = 4*time.Minute + 12*time.Second

	// lengthSpread is the standard deviation of the logarithm of a length. Of 1300 random videos of a day of YouTube the
	// most frequent length was below a minute, and the mean 157 s (lathrios.com, "Runtimes for a sample of 2,600 YouTube
	// videos"). Of a log-normal distribution ln(mean/mode) is 1.5 of the spread's squares; with a mode of 30 s, the middle
	// of that minute, the spread is √(ln(157/30)/1.5).
	lengthSpread = 1.05

	// rateSpread is that of the logarithm of a video's rate, its size divided by its length. In May 2010 one film had 314,
	// 590, 658, 910, 2129 and 3628 kbit/s in the six formats that a browser was given (adterrasperaspera.com, "Approximate
	// YouTube bitrates", Avatar trailer, video and audio): if each is as frequent as the others, their logarithms spread
	// by 0.82.
	rateSpread = 0.82
)

// A Video is one that was drawn.
type Video struct {
	Length time.Duration
	Rate   float64 // bit/s
}

// Size is how long it is in bytes.
func (v Video) Size() float64 { return v.Length.Seconds() * v.Rate / 8 }

// lengths are those of videos, in s.
func lengths() distuv.LogNormal {
	return distuv.LogNormal{Mu: math.Log(meanLength.Seconds()) - lengthSpread*lengthSpread/2, Sigma: lengthSpread}
}

// rates are those of videos, in bit/s.
func rates() distuv.LogNormal {
	return distuv.LogNormal{Mu: math.Log(meanRate) - rateSpread*rateSpread/2, Sigma: rateSpread}
}

// Draw draws n videos that play at once, those of a round: the same for a seed and a round. Of each of n equal shares
// of a distribution there is one, so that a few videos have its spread; rates are scaled so that their mean is what it
// has to be.
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
