package driver

import "github.com/nettoll/nettoll/traffic"

// A Curve is how many bytes had arrived at times in ascending order, as a receiver reports them. It begins with a point
// of zeroes.
type Curve []Point

// A Point is how many bytes had arrived at a time.
type Point struct{ At, Bytes float64 } // s, bytes

// Delivered returns [traffic.SeriesDelivered] for a stream that lasted length seconds.
func (c Curve) Delivered(length float64) traffic.Series {
	list := make([]int64, 0, traffic.Slices+1)
	for i := range traffic.Slices + 1 {
		list = append(list, int64(c.at(length*float64(i)/traffic.Slices)))
	}
	return traffic.Series{traffic.SeriesDelivered: list}
}

// at interpolates the curve, which is straight between two points.
func (c Curve) at(at float64) float64 {
	for i, p := range c[1:] {
		if at > p.At {
			continue
		}
		before := c[i]
		if p.At == before.At {
			return p.Bytes
		}
		return before.Bytes + (p.Bytes-before.Bytes)*(at-before.At)/(p.At-before.At)
	}
	return c[len(c)-1].Bytes
}
