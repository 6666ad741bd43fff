package traffic

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

const constant = "constant"

// A family is a distribution over positive numbers with the mean 1 and one parameter.
type family struct {
	name     string
	of       string // name of its parameter; "" if it has none
	usual    float64
	lo, hi   float64 // limits of the parameter
	quantile func(p, x float64) float64
}

// families returns the distributions that D-ITG offers for times and sizes (its manual, "Inter-departure time
// options"), each with a parameter that does not change the mean: the spread or the shape. Negative values become 0;
// the mean is still 1, see [distribution.table].
func families() []family {
	return []family{
		{constant, "", 0, 0, 0, func(float64, float64) float64 { return 1 }},
		{"exponential", "", 0, 0, 0, func(p, _ float64) float64 { return distuv.Exponential{Rate: 1}.Quantile(p) }},
		{"uniform", "spread", 1, 0, 1, func(p, spread float64) float64 { return 1 + spread*(2*p-1) }},
		{"normal", "spread", 0.25, 0, 10, func(p, sd float64) float64 { return 1 + sd*distuv.UnitNormal.Quantile(p) }},
		{"pareto", "shape", 1.5, 1.01, 100, func(p, shape float64) float64 {
			return distuv.Pareto{Xm: 1, Alpha: shape}.Quantile(p)
		}},
		{"gamma", "shape", 2, 0.05, 100, func(p, shape float64) float64 {
			return distuv.Gamma{Alpha: shape, Beta: shape}.Quantile(p)
		}},
		{"weibull", "shape", 0.7, 0.1, 100, func(p, shape float64) float64 {
			return distuv.Weibull{K: shape, Lambda: 1}.Quantile(p)
		}},
		{"cauchy", "spread", 0.1, 0, 10, func(p, spread float64) float64 { return 1 + spread*math.Tan(math.Pi*(p-0.5)) }},
	}
}

// A distribution is a family with its parameter.
type distribution struct {
	family
	x float64
}

// String returns the distribution as ids show it.
func (d distribution) String() string {
	if d.of == "" {
		return d.name
	}
	return d.name + ":" + strconv.FormatFloat(d.x, 'g', 6, 64)
}

// table returns the gaps or sizes of a schedule, scaled to a mean of 1. Without that, a distribution that is cut off at
// 0 (normal, cauchy) or has no mean (cauchy) would have another mean.
func (d distribution) table(random *rand.Rand) []float64 {
	list := stratified(func(p float64) float64 { return d.quantile(p, d.x) }, random)
	unit(list)
	return list
}

// stratified returns a distribution's quantiles at the middles of equal shares, in random order. Negative values become
// 0.
func stratified(quantile func(p float64) float64, random *rand.Rand) []float64 {
	list := make([]float64, tableSize)
	for i := range list {
		list[i] = max(0, quantile((float64(i)+0.5)/tableSize))
	}
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// unit scales a list to a mean of 1, and returns its former mean.
func unit(list []float64) float64 {
	mean := 0.0
	for _, x := range list {
		mean += x / float64(len(list))
	}
	for i := range list {
		list[i] /= mean
	}
	return mean
}

// parseDistribution reads "gamma" or "gamma:2.5".
func parseDistribution(s string) (distribution, error) {
	name, parameter, given := strings.Cut(s, ":")
	var known []string
	for _, f := range families() {
		if f.name != name {
			known = append(known, strings.TrimSuffix(f.name+"[:"+f.of+"]", "[:]"))
			continue
		}
		d := distribution{f, f.usual}
		if !given {
			return d, nil
		}
		x, err := strconv.ParseFloat(parameter, 64)
		if f.of == "" || err != nil || !(x >= f.lo && x <= f.hi) {
			if f.of == "" {
				return d, fmt.Errorf("invalid value %q (%s has no parameter)", s, name)
			}
			return d, fmt.Errorf("invalid value %q (valid: a %s from %g to %g, such as %s:%g)", s, f.of, f.lo, f.hi, name,
				f.usual)
		}
		d.x = x
		return d, nil
	}
	return distribution{}, fmt.Errorf("%w %q (known: %s)", errUnknown, s, strings.Join(known, ", "))
}

var errUnknown = errors.New("unknown value")

// arrivals say when messages are due: by a distribution, bursts or a file.
type arrivals struct {
	distribution
	on, off time.Duration
	file    string // absolute
	sum     string // of its content: the first eight digits of the SHA-256
}

const (
	poisson   = "poisson" // the name of exponential gaps
	bursts    = "bursts"
	replay    = "replay"
	longestOn = time.Hour
)

func parseArrivals(s string) (arrivals, error) {
	kind, rest, _ := strings.Cut(s, ":")
	switch kind {
	case poisson:
		if s != poisson {
			return arrivals{}, fmt.Errorf("invalid value %q (%s has no parameter)", s, poisson)
		}
		d, err := parseDistribution("exponential")
		return arrivals{distribution: d}, err
	case bursts:
		on, off, _ := strings.Cut(rest, ":")
		a := arrivals{}
		var errOn, errOff error
		a.on, errOn = time.ParseDuration(on)
		a.off, errOff = time.ParseDuration(off)
		if errOn != nil || errOff != nil || a.on <= 0 || a.off < 0 || a.on > longestOn || a.off > longestOn {
			return a, fmt.Errorf("invalid value %q (valid: the on and off times, such as bursts:10ms:40ms)", s)
		}
		return a, nil
	case replay:
		path, sum, _ := strings.Cut(rest, "@")
		if path == "" {
			return arrivals{}, fmt.Errorf("invalid value %q (valid: a file, such as replay:trace.txt)", s)
		}
		return arrivals{file: path, sum: sum}, nil
	}
	d, err := parseDistribution(s)
	if errors.Is(err, errUnknown) {
		return arrivals{}, fmt.Errorf("%w; or poisson, bursts:ON:OFF, replay:FILE", err)
	}
	return arrivals{distribution: d}, err
}

// ParseArrivals checks a description of arrivals and returns it as ids show it:
//
//	constant               evenly
//	poisson                exponential gaps
//	uniform[:spread] normal[:spread] cauchy[:spread]
//	                       gaps of that distribution; its half width, standard deviation or scale in mean gaps
//	pareto[:shape] gamma[:shape] weibull[:shape]
//	bursts:ON:OFF          evenly while it is on, at a higher rate, so that the mean is the rate
//	replay:FILE            as in a file: each line has a time in s, not falling, and may have a size in bytes; # begins a
//	                       comment
//
// ParseArrivals reads the file to check it, and adds a checksum of its content to the id: FILE@SUM.
func ParseArrivals(s string) (string, error) {
	a, err := parseArrivals(s)
	switch {
	case err != nil:
		return "", err
	case a.on > 0:
		return fmt.Sprintf("%s:%v:%v", bursts, a.on, a.off), nil
	case a.file != "":
		path, err := filepath.Abs(a.file)
		if err != nil {
			return "", err
		}
		if strings.ContainsAny(path, "()=,@") {
			return "", fmt.Errorf("replay %q: the file name contains a character that cell ids cannot hold: ( ) = , @", path)
		}
		data, err := readFile(path)
		if err != nil {
			return "", err
		}
		if a.sum != "" && a.sum != sumOf(data) {
			return "", fmt.Errorf("replay %q: the file has changed (checksum %s, now %s)", path, a.sum, sumOf(data))
		}
		if _, err := ParseReplay(data); err != nil {
			return "", fmt.Errorf("replay %q: %w", path, err)
		}
		return fmt.Sprintf("%s:%s@%s", replay, path, sumOf(data)), nil
	case a.name == "exponential":
		return poisson, nil
	}
	return a.String(), nil
}

func parseSizes(s string) (distribution, error) { return parseDistribution(s) }

// ParseSizes checks a description of sizes and returns it as ids show it: a distribution of [ParseArrivals], with
// exponential instead of poisson. Sizes outside the limits of a message are changed to fit. Sizes in a replayed file
// count only if sizes are constant.
func ParseSizes(s string) (string, error) {
	d, err := parseSizes(s)
	if err != nil {
		return "", err
	}
	return d.String(), nil
}

// An Arrival is one message of a replayed file.
type Arrival struct {
	At   int64 // ns since the first
	Size int   // bytes; 0: not given
}

// Limits of a replayed file.
const (
	mostArrivals   = 1 << 20
	mostReplayed   = 32 << 20 // bytes
	longestReplay  = 24 * 3600.0
	mostReplaySize = 1 << 20 // bytes of one message
)

// ParseReplay reads the content of a file of arrivals to replay.
func ParseReplay(data []byte) ([]Arrival, error) {
	var list []Arrival
	first, last := 0.0, 0.0
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.FieldsFunc(line, func(r rune) bool {
			return r == ' ' || r == '\t' || r == ',' || r == ';' || r == '\r'
		})
		if len(fields) == 0 {
			continue
		}
		at, err := strconv.ParseFloat(fields[0], 64)
		if err != nil || len(fields) > 2 || math.IsNaN(at) || math.Abs(at) > 1e12 {
			return nil, fmt.Errorf("line %d: %.80q (valid: a time in s and optionally a size in bytes)", n, line)
		}
		a := Arrival{}
		if len(fields) == 2 {
			if a.Size, err = strconv.Atoi(fields[1]); err != nil || a.Size < 1 || a.Size > mostReplaySize {
				return nil, fmt.Errorf("line %d: size %.80q (valid: 1 to %d bytes)", n, fields[1], mostReplaySize)
			}
		}
		switch {
		case len(list) == 0:
			first = at
		case at < last:
			return nil, fmt.Errorf("line %d: time %g s follows %g s (valid: non-decreasing times)", n, at, last)
		}
		last = at
		if last-first > longestReplay {
			return nil, fmt.Errorf("line %d: %g s after the first message (limit: one day)", n, last-first)
		}
		a.At = int64((at - first) * 1e9)
		if list = append(list, a); len(list) > mostArrivals {
			return nil, fmt.Errorf("line %d: more than %d messages", n, mostArrivals)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(list) < 2 || list[len(list)-1].At == 0 {
		return nil, fmt.Errorf("%d messages (valid: at least two at different times)", len(list))
	}
	return list, nil
}

func readReplay(path, sum string) ([]Arrival, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	if sum != "" && sum != sumOf(data) {
		return nil, fmt.Errorf("replay %q: the file was changed after it was checked", path)
	}
	list, err := ParseReplay(data)
	if err != nil {
		return nil, fmt.Errorf("replay %q: %w", path, err)
	}
	return list, nil
}

// readFile reads a file of a valid size.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("replay: %w", err)
	case info.IsDir():
		return nil, fmt.Errorf("replay %q: is a directory (valid: a file)", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("replay %q: not a regular file", path)
	case info.Size() > mostReplayed:
		return nil, fmt.Errorf("replay %q: too large: %.3g MB (limit %d MiB)", path, float64(info.Size())/1e6,
			mostReplayed>>20)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	return data, nil
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:4])
}
