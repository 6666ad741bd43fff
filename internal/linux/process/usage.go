package process

import "time"

// Usage is CPU time.
type Usage struct {
	Run  time.Duration
	User time.Duration // of Run, outside the kernel, which counts that in ticks: right on average only
}

// Minus is what was used since an earlier time.
func (u Usage) Minus(earlier Usage) Usage { return Usage{u.Run - earlier.Run, u.User - earlier.User} }
