package figure

import "math"

// Scale maps values to positions along an axis.
type Scale struct {
	Lo, Hi   float64 // values at its ends, Lo < Hi; above 0 if Log
	From, To float64 // positions of Lo and Hi
	Log      bool
	// Zero, on a logarithmic scale, is the distance between From, where 0 stands, and Lo: 0 has no place on such a scale,
	// so the axis is broken between them. It is 0 if 0 is not shown.
	Zero float64
}

// At returns the position of a value. Values beyond the ends have positions beyond From and To.
func (s Scale) At(x float64) float64 {
	lo, hi, from := s.Lo, s.Hi, s.From
	if s.Log {
		if from += s.Zero; s.Zero > 0 && x <= 0 {
			return s.From
		}
		x, lo, hi = math.Log(x), math.Log(lo), math.Log(hi)
	}
	return from + (x-lo)/(hi-lo)*(s.To-from)
}

// Break returns the position of the break in the axis; ok is false if it has none.
func (s Scale) Break() (at float64, ok bool) { return s.From + s.Zero/2, s.Log && s.Zero > 0 }

// Clip returns the position of a value, limited to the ends of the axis.
func (s Scale) Clip(x float64) float64 {
	if _, broken := s.Break(); broken && x <= 0 {
		return s.From
	}
	return s.At(min(max(x, s.Lo), s.Hi))
}

// Ticks returns about n round values on the scale, in ascending order.
func (s Scale) Ticks(n int) []float64 {
	if s.Log {
		return s.logTicks(n)
	}
	return Steps(s.Lo, s.Hi, Step((s.Hi-s.Lo)/float64(max(n, 1))))
}

// Step returns the smallest of 1, 2, 5 times a power of ten that is at least x.
func Step(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 0) {
		return 1
	}
	p := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*p >= x*(1-1e-9) {
			return m * p
		}
	}
	return 10 * p
}

// Steps returns the multiples of step from lo to hi.
func Steps(lo, hi, step float64) []float64 {
	var list []float64
	const most = 100 // bounds the list for any arguments
	first := math.Ceil(lo/step - 1e-9)
	for i := range most {
		x := (first + float64(i)) * step
		if !(x <= hi+1e-9*step) {
			break
		}
		list = append(list, x)
	}
	return list
}

// logTicks returns powers of ten, with 2 and 5 times them if there is room, or round steps if even these are too few.
func (s Scale) logTicks(n int) []float64 {
	if s.Hi/s.Lo < 4 {
		return Steps(s.Lo, s.Hi, Step((s.Hi-s.Lo)/float64(max(n, 1))))
	}
	lo, hi := int(math.Floor(math.Log10(s.Lo))), int(math.Ceil(math.Log10(s.Hi)))
	multiples := []float64{1, 2, 5}
	if 3*(hi-lo) > 2*n {
		multiples = []float64{1}
	}
	every := max(1, int(math.Ceil(float64(hi-lo)/float64(max(n, 1)))))
	var list []float64
	for e := lo; e <= hi; e += every {
		for _, m := range multiples {
			if x := m * math.Pow(10, float64(e)); x >= s.Lo*(1-1e-9) && x <= s.Hi*(1+1e-9) {
				list = append(list, x)
			}
		}
	}
	return list
}
