package process

import "time"

// Usage is CPU time.
type Usage struct {
	Run  time.Duration
	User time.Duration // the part of Run outside the kernel, which counts it in ticks: right only on average
}

// Minus returns what was used since an earlier time.
func (u Usage) Minus(earlier Usage) Usage { return Usage{u.Run - earlier.Run, u.User - earlier.User} }
