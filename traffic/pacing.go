package traffic

// Due returns when the datagram or request of a number (from 0) is due at so many a second, in ns since the first: a pure function, so that who
// falls behind catches up and a schedule can be tested without sleeping.
//
//go:nosplit
func Due(number uint64, perSecond float64) int64 { return int64(float64(number) / perSecond * 1e9) }
