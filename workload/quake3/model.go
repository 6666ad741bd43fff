package quake3

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/nettoll/nettoll/traffic"
)

// The packets of a client, as D-ITG 2.8.1 generates them (src/ITGSend/traffic.cpp, QuakeParser; its manual names Lang
// et al. as the source). It is not known here whether the paper's lengths are those of IP packets: D-ITG uses them as
// payloads, and so does this workload.
const (
	// 60 % of the gaps between two packets are exponential, and the others have one length: that of a picture at 93 a
	// second. (D-ITG uses the mean: it sends 145 packets a second.)
	exponentialShare = 0.6
	exponentialGap   = 4.29e-3  // s, mean
	pictureGap       = 10.75e-3 // s

	clientLength = 64.151757 // bytes, mean of a normal distribution
	clientSpread = 3.2035755 // bytes, standard deviation
)

// The packets of the server to each client. D-ITG has no server; these numbers are derived from measurements of the
// same group.
const (
	// tick is the time between two packets to a client: 20 a second (Pozzobon, CAIA Technical Report 021220A, 2002,
	// "Individual Flow Traffic Results", client D). A server sends to all clients one after another, at the same time.
	tick = 50e-3 // s

	// In that report, a server sent 12 to 19 kbit/s to a client, in games of 2 to 5 players: 75 to 118.75 bytes a
	// packet. The mean is assumed to be linear in the number of players, also beyond that range.
	lengthOf2 = 12e3 / 8 * tick // bytes
	lengthOf5 = 19e3 / 8 * tick // bytes

	// spread is the standard deviation of the logarithm of a length. The lengths in Quake II, the previous game, span a
	// factor of 3 except for a few (80 to 240 bytes: Armitage, "Snapshot of QuakeII Ethernet Frame Sizes", 2000). ln 3
	// is taken as the range of 98 % of a log-normal distribution, which is 2 × 2.326 standard deviations.
	spread = 0.236

	// longest is the largest payload of one packet: the game itself splits longer ones (Quake III Arena's net_chan.c,
	// FRAGMENT_SIZE).
	longest = 1300 // bytes
)

// clientGap is the quantile function of the time between two packets of a client, in s.
func clientGap(p float64) float64 {
	exponential := distuv.Exponential{Rate: 1 / exponentialGap}
	below := exponentialShare * exponential.CDF(pictureGap)
	switch {
	case p < below:
		return exponential.Quantile(p / exponentialShare)
	case p < below+1-exponentialShare:
		return pictureGap
	}
	return exponential.Quantile((p - (1 - exponentialShare)) / exponentialShare)
}

// clientLengths returns the distribution of the lengths of a client's packets, in bytes.
func clientLengths() distuv.Normal { return distuv.Normal{Mu: clientLength, Sigma: clientSpread} }

// meanLength is the mean length of a server's packet in a game, in bytes.
func meanLength(players int) float64 {
	return lengthOf2 + (lengthOf5-lengthOf2)/(5-2)*float64(players-2)
}

// serverLengths returns the distribution of the lengths of a server's packets in a game, in bytes.
func serverLengths(players int) distuv.LogNormal {
	return distuv.LogNormal{Mu: math.Log(meanLength(players)) - spread*spread/2, Sigma: spread}
}

// clientSchedule returns the due times and lengths of a client's packets.
func clientSchedule(seed uint64, player int) (*traffic.Schedule, error) {
	return traffic.NewSchedule(traffic.ScheduleSpec{
		Gaps: clientGap, Lengths: clientLengths().Quantile, Least: traffic.HeaderSize, Most: longest,
		Seed: seed<<8 | uint64(player)<<1,
	})
}

// serverSchedule returns the due times and lengths of a server's packets to a client.
func serverSchedule(seed uint64, player, players int) (*traffic.Schedule, error) {
	return traffic.NewSchedule(traffic.ScheduleSpec{
		Rate: 1 / tick, Arrivals: "constant", Lengths: serverLengths(players).Quantile, Least: traffic.HeaderSize,
		Most: longest, Seed: seed<<8 | uint64(player)<<1 | 1,
	})
}
